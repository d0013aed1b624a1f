// Command benthos is a stream of redpanda-data/benthos: an HTTP server that answers when the
// write is done, and an output that writes its batches by ApplyBulk. What a record becomes
// is Go in the output, or a mapping in its own language.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math"
	"net"
	"os"
	"time"

	"cloud.google.com/go/bigtable"
	_ "github.com/redpanda-data/benthos/v4/public/components/io"
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"
	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/pushsink/pushsink/bench/contender"
	"github.com/pushsink/pushsink/bench/probe"
	"github.com/pushsink/pushsink/bench/reading"
)

// process makes a message of each record, by the shape of the requests.
var process = map[string]string{
	"push": `
  processors:
    - mapping: 'root = this.message.data.decode("base64")'`,
	"ndjson": `
  processors:
    - unarchive: {format: lines}`,
}

// bloblang makes of each record the row that the output writes.
const bloblang = `
    - mapping: |
        let r = content().parse_json(use_number: true)
        root.key = $r.device + "#" + $r.seq.string()
        root.ts = $r.ts
        root.cells.temp = $r.temp
        root.cells.humidity = $r.humidity
        root.cells.pressure = $r.pressure
        root.cells.state = $r.state
        root.cells.note = $r.note`

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
	mapped := os.Getenv(contender.MappingEnv) == "bloblang"
	if mapped {
		steps += bloblang
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
		return &rows{mapped: mapped}, policy, inFlight, err
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
	mapped bool // the messages are rows already
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
		var err error
		if o.mapped {
			keys[i], mutations[i], err = mappedRow(message)
		} else {
			keys[i], mutations[i], err = decodedRow(message)
		}
		if err != nil {
			return err
		}
	}
	failed, err := o.table.ApplyBulk(ctx, keys, mutations)
	if err == nil && failed != nil {
		err = fmt.Errorf("%d rows: %v", len(failed), failed[0])
	}
	return err
}

func (o *rows) Close(context.Context) error { return o.client.Close() }

// decodedRow knows the record.
func decodedRow(message *service.Message) (string, *bigtable.Mutation, error) {
	data, err := message.AsBytes()
	if err != nil {
		return "", nil, err
	}
	var row reading.Reading
	if err := json.Unmarshal(data, &row); err != nil {
		return "", nil, err
	}
	return row.Key(), row.Mutation(), nil
}

var errRow = errors.New("not a row")

// mappedRow takes any row: its key, its time, and cells by their columns.
func mappedRow(message *service.Message) (string, *bigtable.Mutation, error) {
	value, err := message.AsStructured()
	if err != nil {
		return "", nil, err
	}
	row, _ := value.(map[string]any)
	key, _ := row["key"].(string)
	text, _ := row["ts"].(string)
	cells, _ := row["cells"].(map[string]any)
	if key == "" || len(cells) == 0 {
		return "", nil, errRow
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return "", nil, err
	}
	ts := bigtable.Time(at).TruncateToMilliseconds()
	m := bigtable.NewMutation()
	for column, cell := range cells {
		switch v := cell.(type) {
		case string:
			m.Set(reading.Family, column, ts, []byte(v))
		case json.Number:
			f, err := v.Float64()
			if err != nil {
				return "", nil, err
			}
			m.Set(reading.Family, column, ts, binary.BigEndian.AppendUint64(nil, math.Float64bits(f)))
		default:
			return "", nil, errRow
		}
	}
	return key, m, nil
}
