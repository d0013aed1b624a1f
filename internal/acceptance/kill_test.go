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
	each := size(1250, 200)
	bt := emulator.Bigtable(t)
	broker := emulator.PubSub(t)
	db := openStore(t, bt)
	db.create(t, "byid", "f")
	s := startServer(t, serverBinary(t), bt, byIDRoutes, nil)

	var names []string
	for i := range topics {
		names = append(names, broker.Topic(t, project, fmt.Sprintf("topic-%d", i)))
		broker.PushTo(t, project, fmt.Sprintf("push-%d", i), names[i], s.URL+"/v1/routes/byid/push")
	}
	want := killInWaves(t, s, broker, names, each, func() int { return db.count(t, "byid") })
	eventually(t, "all rows", 10*patience, func() bool { return db.count(t, "byid") == len(want) })
	if code, took := s.terminate(t); code != 0 {
		t.Errorf("exit code %d after %v", code, took)
	}
	got := db.rows(t, "byid")
	versions := 0
	for key, columns := range got {
		cells := columns["f:data"]
		versions += len(cells)
		if len(cells) != 1 || len(columns) != 1 || cells[0].Value != want[key] {
			t.Errorf("row %q = %v, want one version of its payload", key, columns)
		}
		if at := time.UnixMicro(cells[0].Micros); time.Since(at) > time.Hour || time.Until(at) > time.Hour {
			t.Errorf("row %q has the time %v, want its publish time", key, at)
		}
	}
	if len(got) != len(want) || versions != len(want) {
		t.Errorf("%d rows and %d versions, want %d of both", len(got), versions, len(want))
	}
	t.Logf("%d messages over %d topics, killed three times: %d rows, %d versions", len(want), topics, len(got), versions)
}

// killInWaves publishes each messages to every topic in four waves, the server being
// killed in each of the first three when a tenth of the wave is there, by count. A kill
// that came too late is made up for by another wave. It returns the messages published:
// key, which is their attribute id -> payload.
func killInWaves(t *testing.T, s *server, broker *emulator.PubSubEmulator, topics []string, each int, count func() int) map[string]string {
	t.Helper()
	want := map[string]string{}
	kills := 0
	for published := 0; published < each || kills < 3; {
		wave := (each + 3) / 4
		if published < each {
			wave = min(wave, each-published)
		}
		there := count()
		for i, topic := range topics {
			var messages []*pubsubpb.PubsubMessage
			for j := range wave {
				key := fmt.Sprintf("%02d-%05d", i, published+j)
				want[key] = "payload of " + key
				messages = append(messages, &pubsubpb.PubsubMessage{
					Data: []byte(want[key]), Attributes: map[string]string{"id": key},
				})
			}
			broker.Publish(t, topic, messages...)
		}
		published += wave
		if kills == 3 {
			break
		}
		eventually(t, "a tenth of the wave", patience, func() bool { return count() >= there+len(topics)*wave/10 })
		s.kill()
		if at := count(); at < len(want) {
			kills++
			t.Logf("kill %d at %d of %d rows", kills, at, len(want))
		}
		if published > 10*each {
			t.Fatalf("%d kills under load with %d messages", kills, len(want))
		}
		s.start(t)
	}
	return want
}
