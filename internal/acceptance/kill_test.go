package acceptance

import (
	"fmt"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/pushsink/pushsink/internal/emulator"
)

// byID keeps a message under its own id attribute: one row, one cell.
const byIDRoutes = `
routes:
  byid:
    input: {format: bytes}
    bigtable:
      table: byid
      rowKey: "{message.attributes.id}"
      set:
        - {family: f, column: data, value: raw, as: bytes}
`

// TestKilledUnderLoad: the server is killed three times while 16 subscriptions push to
// it. What it had acknowledged is not delivered again, so a message that is missing at
// the end was acknowledged and lost.
func TestKilledUnderLoad(t *testing.T) {
	const topics = 16
	each := size(1250, 60)
	bt := emulator.Bigtable(t)
	broker := emulator.PubSub(t)
	db := openStore(t, bt)
	db.create(t, "byid", "f")
	s := startServer(t, serverBinary(t), bt, byIDRoutes, nil)

	want := map[string]map[string]string{} // key -> "value" only; the times are the service's
	for i := range topics {
		topic := broker.Topic(t, project, fmt.Sprintf("topic-%d", i))
		broker.PushTo(t, project, fmt.Sprintf("push-%d", i), topic, s.URL+"/v1/routes/byid/push")
		var messages []*pubsubpb.PubsubMessage
		for j := range each {
			key := fmt.Sprintf("%02d-%04d", i, j)
			want[key] = map[string]string{"f:data": "payload of " + key}
			messages = append(messages, &pubsubpb.PubsubMessage{
				Data: []byte("payload of " + key), Attributes: map[string]string{"id": key},
			})
		}
		broker.Publish(t, topic, messages...)
	}
	for n, share := range []int{10, 35, 60} { // percent of the rows that are there
		eventually(t, fmt.Sprintf("%d %% of the rows", share), 4*patience, func() bool {
			return db.count(t, "byid")*100 >= len(want)*share
		})
		at := db.count(t, "byid")
		s.kill()
		t.Logf("kill %d at %d of %d rows", n+1, at, len(want))
		if at == len(want) {
			t.Errorf("kill %d came after the load", n+1)
		}
		s.start(t)
	}
	eventually(t, "all rows", 10*patience, func() bool { return db.count(t, "byid") == len(want) })
	if code, took := s.terminate(t); code != 0 {
		t.Errorf("exit code %d after %v", code, took)
	}
	got := db.rows(t, "byid")
	versions := 0
	for key, columns := range got {
		cells := columns["f:data"]
		versions += len(cells)
		if len(cells) != 1 || len(columns) != 1 || cells[0].Value != want[key]["f:data"] {
			t.Errorf("row %q = %v, want one version of its payload", key, columns)
		}
		if at := time.UnixMicro(cells[0].Micros); time.Since(at) > time.Hour || time.Until(at) > time.Hour {
			t.Errorf("row %q has the time %v, want its publish time", key, at)
		}
	}
	if len(got) != len(want) || versions != len(want) {
		t.Errorf("%d rows and %d versions, want %d of both", len(got), versions, len(want))
	}
	t.Logf("%d messages over %d topics, 3 kills: %d rows, %d versions", len(want), topics, len(got), versions)
}
