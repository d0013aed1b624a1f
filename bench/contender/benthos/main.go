// Command benthos is a stream of redpanda-data/benthos: an HTTP server that answers when the
// write is done, and an output that writes its batches by ApplyBulk.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"

	"cloud.google.com/go/bigtable"
	_ "github.com/redpanda-data/benthos/v4/public/components/io"
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"
	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/pushsink/pushsink/bench/contender"
	"github.com/pushsink/pushsink/bench/probe"
	"github.com/pushsink/pushsink/bench/reading"
)

// process makes a message of each record.
var process = map[string]string{
	"push": `
  processors:
    - mapping: 'root = this.message.data.decode("base64")'`,
	"ndjson": `
  processors:
    - unarchive: {format: lines}`,
}

const stream = `
http: {enabled: false}
logger: {level: ERROR}
input:
  http_server:
    address: 127.0.0.1:%s
    path: /
    allowed_verbs: [POST]
    timeout: 30s%s
output:
  bigtable_rows:
    max_in_flight: 64
    batching: {count: 100, period: 5ms}
`

func main() {
	probe.Serve()
	steps, ok := process[os.Getenv(contender.ShapeEnv)]
	if !ok {
		log.Fatalf("%s=%q", contender.ShapeEnv, os.Getenv(contender.ShapeEnv))
	}
	spec := service.NewConfigSpec().Fields(
		service.NewBatchPolicyField("batching"),
		service.NewOutputMaxInFlightField(),
	)
	builder := service.NewStreamBuilder()
	err := service.RegisterBatchOutput("bigtable_rows", spec, func(conf *service.ParsedConfig, _ *service.Resources) (service.BatchOutput, service.BatchPolicy, int, error) {
		policy, err := conf.FieldBatchPolicy("batching")
		if err != nil {
			return nil, policy, 0, err
		}
		inFlight, err := conf.FieldMaxInFlight()
		return &rows{}, policy, inFlight, err
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := builder.SetYAML(fmt.Sprintf(stream, os.Getenv("PORT"), steps)); err != nil {
		log.Fatal(err)
	}
	s, err := builder.Build()
	if err != nil {
		log.Fatal(err)
	}
	probe.Ready(func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+os.Getenv("PORT"))
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	log.Fatal(s.Run(context.Background()))
}

// rows writes a batch as one ApplyBulk.
type rows struct {
	client *bigtable.Client
	table  *bigtable.Table
}

func (o *rows) Connect(ctx context.Context) (err error) {
	if o.client, err = contender.Bigtable(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	o.table = o.client.Open(reading.TableName)
	return nil
}

func (o *rows) WriteBatch(ctx context.Context, batch service.MessageBatch) error {
	keys := make([]string, len(batch))
	mutations := make([]*bigtable.Mutation, len(batch))
	for i, message := range batch {
		data, err := message.AsBytes()
		if err != nil {
			return err
		}
		var row reading.Reading
		if err := json.Unmarshal(data, &row); err != nil {
			return err
		}
		keys[i], mutations[i] = row.Key(), row.Mutation()
	}
	failed, err := o.table.ApplyBulk(ctx, keys, mutations)
	if err == nil && failed != nil {
		err = fmt.Errorf("%d rows: %v", len(failed), failed[0])
	}
	return err
}

func (o *rows) Close(context.Context) error { return o.client.Close() }
