package acceptance

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/pushsink/pushsink/internal/emulator"
)

const quakeRoutes = `
routes:
  quakes:
    input: {format: json}
    bigtable:
      table: quakes
      rowKey: "{data.properties.net}#{reverseMillis(timestamp(0) + duration(string(data.properties.time) + 'ms'))}"
      timestamp: timestamp(0) + duration(string(data.properties.time) + 'ms')
      create: ifNeeded
      families:
        q: {}
        at: {}
      set:
        - {family: q, column: mag, value: data.properties.mag, as: float64}
        - {family: q, column: place, value: data.properties.place, as: string}
        - {family: q, column: status, value: data.properties.status, as: string}
        - {family: q, column: felt, value: data.properties.felt, as: int64}
        - {family: q, column: id, value: data.id, as: string}
        - {family: at, column: coordinates, value: data.geometry.coordinates, as: json}
        - {family: at, column: lon, value: "data.geometry.coordinates[0]", as: float64}
`

// quake is an event as the test reads it, on its own.
type quake struct {
	ID         string `json:"id"`
	Properties struct {
		Net, Place, Status string
		Mag                float64
		Time               int64
		Felt               *int64
	} `json:"properties"`
	Geometry struct {
		Coordinates json.RawMessage `json:"coordinates"`
	} `json:"geometry"`
}

// want is the row that quakeRoutes should make of the event.
func (q quake) want(t *testing.T) (key string, row map[string][]cell) {
	t.Helper()
	micros := q.Properties.Time * 1000
	one := func(value string) []cell { return []cell{{micros, value}} }
	float := func(f float64) string { return string(binary.BigEndian.AppendUint64(nil, math.Float64bits(f))) }
	var coordinates []float64
	if err := json.Unmarshal(q.Geometry.Coordinates, &coordinates); err != nil {
		t.Fatal(err)
	}
	row = map[string][]cell{
		"q:mag":          one(float(q.Properties.Mag)),
		"q:place":        one(q.Properties.Place),
		"q:status":       one(q.Properties.Status),
		"q:id":           one(q.ID),
		"at:coordinates": one(string(q.Geometry.Coordinates)),
		"at:lon":         one(float(coordinates[0])),
	}
	if felt := q.Properties.Felt; felt != nil {
		row["q:felt"] = one(string(binary.BigEndian.AppendUint64(nil, uint64(*felt))))
	}
	return fmt.Sprintf("%s#%019d", q.Properties.Net, math.MaxInt64-q.Properties.Time), row
}

// TestEarthquakesPublishedTwice: real events, each published twice, are one row each,
// every cell one version, every value the input's.
func TestEarthquakesPublishedTwice(t *testing.T) {
	input, err := os.ReadFile("testdata/earthquakes.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	bt := emulator.Bigtable(t)
	broker := emulator.PubSub(t)
	db := openStore(t, bt)
	s := startServer(t, serverBinary(t), bt, quakeRoutes, nil)
	acks := watchAcks(t, s.URL)
	// The emulator pushes two at a time per subscription: four topics make it eight.
	var topics []string
	for i := range 4 {
		topic := broker.Topic(t, project, fmt.Sprintf("quakes-%d", i))
		broker.PushTo(t, project, fmt.Sprintf("quakes-%d", i), topic, acks.URL+"/v1/routes/quakes/push")
		topics = append(topics, topic)
	}

	wantRows := map[string]map[string][]cell{}
	var messages []*pubsubpb.PubsubMessage
	lines := bufio.NewScanner(bytes.NewReader(input))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var q quake
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			t.Fatal(err)
		}
		key, row := q.want(t)
		wantRows[key] = row
		messages = append(messages, &pubsubpb.PubsubMessage{Data: bytes.Clone(lines.Bytes())})
	}
	if len(wantRows) != 1707 {
		t.Fatalf("%d distinct keys in the input, want 1707", len(wantRows))
	}
	ids := map[string]bool{}
	for range 2 {
		for i, topic := range topics {
			for _, id := range broker.Publish(t, topic, messages[i*len(messages)/4:(i+1)*len(messages)/4]...) {
				ids[id] = true
			}
		}
	}
	if len(ids) != 2*len(messages) {
		t.Fatalf("%d message ids, want %d", len(ids), 2*len(messages))
	}

	eventually(t, "every message acknowledged", 4*patience, func() bool { return acks.count() == len(ids) })
	if code, _ := s.terminate(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	compareRows(t, db.rows(t, "quakes"), wantRows)
}

// compareRows wants the same rows, cells, versions, times and values.
func compareRows(t *testing.T, got, want map[string]map[string][]cell) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d rows, want %d", len(got), len(want))
	}
	shown := 0
	report := func(format string, args ...any) {
		if shown++; shown <= 10 {
			t.Errorf(format, args...)
		} else {
			t.Fail()
		}
	}
	for key, wantRow := range want {
		gotRow := got[key]
		for column, wantCells := range wantRow {
			if !slices.Equal(gotRow[column], wantCells) {
				report("row %q, %s = %+v, want %+v", key, column, gotRow[column], wantCells)
			}
		}
		if len(gotRow) != len(wantRow) {
			report("row %q has %d columns, want %d", key, len(gotRow), len(wantRow))
		}
	}
	for key := range got {
		if want[key] == nil {
			report("unexpected row %q", key)
		}
	}
}
