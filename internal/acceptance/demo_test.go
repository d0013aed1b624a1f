package acceptance

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/pushsink/pushsink/internal/emulator"
)

// demoTick is how often the demo publishes, and demoBurst how much at a time: slow enough to
// watch, and for the Spanner emulator, which runs one transaction at a time.
const (
	demoTick  = 250 * time.Millisecond
	demoBurst = 5
)

// TestDemo is `make demo`: the emulators of this machine, a server on the example's routes,
// and its real events published to both sinks. DEMO=1 says what is there and goes on until an
// interrupt; otherwise every event is published once and looked for in both.
func TestDemo(t *testing.T) {
	routes, err := os.ReadFile("../../examples/earthquakes/routes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ddl, err := os.ReadFile("../../examples/earthquakes/events.sql")
	if err != nil {
		t.Fatal(err)
	}
	events, err := os.ReadFile("../../examples/earthquakes/events.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	var messages []*pubsubpb.PubsubMessage
	for line := range bytes.Lines(events) {
		messages = append(messages, &pubsubpb.PubsubMessage{Data: bytes.TrimSpace(line)})
	}

	bt, sql, broker := emulator.Bigtable(t), emulator.Spanner(t), emulator.PubSub(t)
	database := sql.Database(t, string(ddl))
	s := startServer(t, serverBinary(t), bt, string(routes), map[string]string{
		"SPANNER_EMULATOR_HOST": sql.Addr, "PUSHSINK_SPANNER_DATABASE": database,
		"PUSHSINK_EXPOSE": "rows,dryrun,console",
	})
	topic := broker.Topic(t, project, "earthquakes")
	broker.PushTo(t, project, "quakes", topic, s.URL+"/v1/routes/quakes/push")
	broker.PushTo(t, project, "events", topic, s.URL+"/v1/routes/events/push")

	if os.Getenv("DEMO") == "1" {
		showDemo(t, s, sql, database, func(round int) {
			from := round * demoBurst % len(messages)
			broker.Publish(t, topic, messages[from:min(from+demoBurst, len(messages))]...)
		})
		return
	}
	broker.Publish(t, topic, messages...)
	eventually(t, "every event in Bigtable and in Spanner", 2*patience, func() bool {
		return bytes.Count(demoRows(t, s, 1000), []byte{'\n'}) == len(messages) &&
			fmt.Sprint(sql.Query(t, database, "SELECT COUNT(*) FROM Events")) == fmt.Sprintf("[[%d]]", len(messages))
	})
}

// demoRows are lines of /rows; none until the table is there.
func demoRows(t *testing.T, s *server, limit int) []byte {
	t.Helper()
	response, err := http.Get(fmt.Sprintf("%s/v1/routes/quakes/rows?decode=1&limit=%d", s.URL, limit))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	rows, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		return nil
	}
	return rows
}

// showDemo publishes at each tick and prints what arrived, until an interrupt.
func showDemo(t *testing.T, s *server, sql *emulator.SpannerEmulator, database string, publish func(round int)) {
	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupt)
	fmt.Printf("\nconsole    %s/\nrows       %s/v1/routes/quakes/rows?decode=1&limit=3\ncontract   %s/openapi.yaml\n\n", s.URL, s.URL, s.URL)
	tick := time.NewTicker(demoTick)
	defer tick.Stop()
	for round := 0; ; round++ {
		publish(round)
		if round%20 == 19 {
			printDemo(t, s, sql, database)
		}
		select {
		case <-interrupt:
			code, took := s.terminate(t)
			fmt.Printf("\nSIGTERM: exit code %d after %v\n", code, took.Round(time.Millisecond))
			return
		case <-s.proc.Done():
			t.Fatalf("the server ended: %s", s.proc.Output())
		case <-tick.C:
		}
	}
}

// printDemo prints the first row of Bigtable and the last of Spanner.
func printDemo(t *testing.T, s *server, sql *emulator.SpannerEmulator, database string) {
	row, _, _ := bytes.Cut(demoRows(t, s, 1), []byte{'\n'})
	fmt.Printf("Bigtable   %s\n", row)
	for _, r := range sql.Query(t, database, "SELECT Id, Mag, Place, WrittenAt FROM Events ORDER BY WrittenAt DESC LIMIT 1") {
		fmt.Printf("Spanner    %v\n", r)
	}
}
