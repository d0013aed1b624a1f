package acceptance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pushsink/pushsink/internal/emulator"
)

// startSpanner runs the server on routes that write to a database of the emulator. The
// emulator runs one transaction at a time and aborts the others, so they are tried again
// sooner than is good for the service.
func startSpanner(t testing.TB, e *emulator.SpannerEmulator, database, routes string, env map[string]string) *server {
	t.Helper()
	all := map[string]string{
		"BIGTABLE_EMULATOR_HOST": "", "PUSHSINK_BIGTABLE_PROJECT": "", "PUSHSINK_BIGTABLE_INSTANCE": "",
		"SPANNER_EMULATOR_HOST":                     e.Addr,
		"PUSHSINK_SPANNER_DATABASE":                 database,
		"PUSHSINK_SPANNER_RECOVERY_INITIAL_BACKOFF": "5ms",
		"PUSHSINK_SPANNER_RECOVERY_MAX_BACKOFF":     "100ms",
		"PUSHSINK_SPANNER_RECOVERY_MAX_ATTEMPTS":    "1000",
	}
	maps.Copy(all, env)
	return startServer(t, serverBinary(t), "", routes, all)
}

// spannerMethods are the ways to write.
var spannerMethods = []string{"batchWrite", "commit"}

const spannerQuakeTable = `CREATE TABLE Quakes (
  Id STRING(40) NOT NULL, Net STRING(MAX), Place STRING(MAX), Alert STRING(6), Mag FLOAT64, MagExact NUMERIC, Felt INT64,
  HappenedAt TIMESTAMP, Properties JSON, Coordinates ARRAY<FLOAT64>, Exact ARRAY<NUMERIC>, Kinds ARRAY<STRING(MAX)>
) PRIMARY KEY (Id)`

const spannerQuakeRoutes = `
routes:
  quakes:
    spanner:
      table: Quakes
      columns:
        Id: data.id
        Net: data.properties.net
        Place: data.properties.place
        Alert: data.properties.alert
        Mag: data.properties.mag
        MagExact: data.properties.mag
        Felt: data.properties.felt
        HappenedAt: timestamp(0) + duration(string(data.properties.time) + 'ms')
        Properties: data.properties
        Coordinates: data.geometry.coordinates
        Exact: data.geometry.coordinates
        Kinds: data.properties.types.split(',')
`

// spannerQuake is an event as the test reads it, on its own.
type spannerQuake struct {
	ID         string
	Properties json.RawMessage
	Geometry   struct{ Coordinates []json.Number }
}

type quakeProperties struct {
	Net, Place, Alert, Types *string
	Mag, Felt                *json.Number
	Time                     int64
}

// plain is a decimal as NUMERIC spells it.
func plain(t *testing.T, n json.Number) string {
	t.Helper()
	r, ok := new(big.Rat).SetString(n.String())
	if !ok {
		t.Fatalf("no number: %s", n)
	}
	text := r.FloatString(9)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

func float(t *testing.T, n json.Number) float64 {
	t.Helper()
	f, err := n.Float64()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// row is what a query should return of the event.
func (q spannerQuake) row(t *testing.T) []any {
	t.Helper()
	var p quakeProperties
	if err := json.Unmarshal(q.Properties, &p); err != nil {
		t.Fatal(err)
	}
	text := func(s *string) any {
		if s == nil {
			return nil
		}
		return *s
	}
	number := func(n *json.Number, as func(*testing.T, json.Number) any) any {
		if n == nil {
			return nil
		}
		return as(t, *n)
	}
	asPlain := func(t *testing.T, n json.Number) any { return plain(t, n) }
	asFloat := func(t *testing.T, n json.Number) any { return float(t, n) }
	var floats, exact, kinds []any
	for _, c := range q.Geometry.Coordinates {
		floats = append(floats, float(t, c))
		exact = append(exact, plain(t, c))
	}
	for _, kind := range strings.Split(*p.Types, ",") {
		kinds = append(kinds, kind)
	}
	return []any{q.ID, text(p.Net), text(p.Place), text(p.Alert), number(p.Mag, asFloat), number(p.Mag, asPlain), number(p.Felt, asPlain),
		time.UnixMilli(p.Time).UTC().Format(time.RFC3339Nano), floats, exact, kinds}
}

// TestSpannerEarthquakes: real events in a table with columns of many types, and what SQL
// says of them is what the input says, value by value and added up.
func TestSpannerEarthquakes(t *testing.T) {
	input, err := os.ReadFile("testdata/earthquakes.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	quakes := map[string]spannerQuake{}
	magnitudes, nulls, unfelt := new(big.Rat), 0, 0
	var lines [][]byte
	for line := range bytes.Lines(input) {
		lines = append(lines, line)
		var q spannerQuake
		if err := json.Unmarshal(line, &q); err != nil {
			t.Fatal(err)
		}
		quakes[q.ID] = q
		row := q.row(t)
		for _, v := range row {
			if v == nil {
				nulls++
			}
		}
		if row[6] == nil {
			unfelt++
		}
		if exact, ok := row[5].(string); ok {
			mag, _ := new(big.Rat).SetString(exact)
			magnitudes.Add(magnitudes, mag)
		}
	}
	if len(quakes) != 1707 || unfelt == 0 {
		t.Fatalf("%d events, %d not felt", len(quakes), unfelt)
	}
	e := emulator.Spanner(t)
	client := newClient(t)
	for _, method := range spannerMethods {
		t.Run(method, func(t *testing.T) {
			database := e.Database(t, spannerQuakeTable)
			s := startSpanner(t, e, database, spannerQuakeRoutes, map[string]string{"PUSHSINK_SPANNER_WRITE_METHOD": method})
			for range 2 { // the second time changes nothing
				a := postRecords(t.Context(), client, s.URL, "quakes", bytes.NewReader(input))
				b := a.batch(t)
				if b.Received != len(quakes) || b.Written+b.Failed != len(quakes) {
					t.Fatalf("%v, want %d records", a, len(quakes))
				}
				// The emulator takes one transaction at a time, and may abort one too often.
				resend(t, client, s.URL, "quakes", b, func(i int) []byte { return lines[i] })
			}
			got := e.Query(t, database, "SELECT Id, Net, Place, Alert, Mag, MagExact, Felt, HappenedAt, Coordinates, Exact, Kinds, TO_JSON_STRING(Properties) FROM Quakes")
			if len(got) != len(quakes) {
				t.Errorf("%d rows, want %d", len(got), len(quakes))
			}
			for _, row := range got {
				q := quakes[row[0].(string)]
				if want := q.row(t); !reflect.DeepEqual(row[:len(want)], want) {
					t.Fatalf("row %v\nwant %v", row, want)
				}
				var gotJSON, wantJSON any
				if err := json.Unmarshal([]byte(row[11].(string)), &gotJSON); err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(q.Properties, &wantJSON); err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(gotJSON, wantJSON) {
					t.Fatalf("properties %s\nwant %s", row[11], q.Properties)
				}
			}
			sums := e.Query(t, database, `SELECT COUNT(*), SUM(MagExact), COUNTIF(Felt IS NULL),
				SUM(IF(Net IS NULL, 1, 0) + IF(Place IS NULL, 1, 0) + IF(Alert IS NULL, 1, 0) + IF(Mag IS NULL, 1, 0) + IF(MagExact IS NULL, 1, 0) + IF(Felt IS NULL, 1, 0)),
				COUNTIF(CAST(JSON_VALUE(Properties, '$.time') AS INT64) != UNIX_MILLIS(HappenedAt)),
				COUNTIF(ARRAY_LENGTH(Coordinates) != 3 OR ARRAY_LENGTH(Exact) != 3)
				FROM Quakes`)[0]
			want := []any{fmt.Sprint(len(quakes)), plain(t, json.Number(magnitudes.FloatString(9))), fmt.Sprint(unfelt), fmt.Sprint(nulls), "0", "0"}
			if !reflect.DeepEqual(sums, want) {
				t.Errorf("sums %v, want %v", sums, want)
			}
			if code, _ := s.terminate(t); code != 0 {
				t.Errorf("exit code %d", code)
			}
			t.Logf("%d rows, sum of magnitudes %s, %d NULLs: as the input", len(got), want[1], nulls)
		})
	}
}

// effectRoutes make a row of its own of every write: what is written twice is two rows.
const effectRoutes = `
routes:
  effects:
    input: {format: json}
    spanner:
      table: Effects
      operation: insert
      columns: {Msg: data.n}
      dedup: {table: Seen}
`

const (
	effectTable = "CREATE TABLE Effects (Id STRING(36) DEFAULT (GENERATE_UUID()), Msg INT64 NOT NULL) PRIMARY KEY (Id)"
	seenTable   = "CREATE TABLE Seen (Id BYTES(16) NOT NULL, WrittenAt TIMESTAMP NOT NULL OPTIONS (allow_commit_timestamp = true)) PRIMARY KEY (Id), ROW DELETION POLICY (OLDER_THAN(WrittenAt, INTERVAL 14 DAY))"
)

// TestSpannerEffectsExactlyOnce: messages that make a new row each time, delivered five
// times at once, while the server is killed three times, are one row each.
func TestSpannerEffectsExactlyOnce(t *testing.T) {
	const copies = 5
	n := size(1000, 200)
	e := emulator.Spanner(t)
	for _, method := range spannerMethods {
		t.Run(method, func(t *testing.T) {
			database := e.Database(t, effectTable, seenTable)
			s := startSpanner(t, e, database, effectRoutes, map[string]string{"PUSHSINK_SPANNER_WRITE_METHOD": method})
			client := newClient(t)
			count := func() int { return len(e.Query(t, database, "SELECT Id FROM Effects")) }

			const quarters = 4
			var open [quarters]chan struct{} // when that part of the messages may be delivered
			for i := range open {
				open[i] = make(chan struct{})
			}
			close(open[0])
			var acked, nacked atomic.Int64
			bodies := make([][]byte, n)
			for i := range bodies {
				bodies[i] = message{ID: fmt.Sprintf("m-%d", i), Data: fmt.Appendf(nil, `{"n":%d}`, i)}.body(t)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				// The copies of a message are neighbours, so they are under way together.
				inParallel(8*copies, copies*n, func(i int) {
					<-open[i/copies*quarters/n]
					for {
						a := push(t.Context(), client, s.URL, "effects", bodies[i/copies])
						if a.acknowledged() {
							acked.Add(1)
							return
						}
						nacked.Add(1)
						if a.Err == nil && a.Status != 503 && a.Status != 429 {
							t.Errorf("message %d: %v", i/copies, a)
							return
						}
						select {
						case <-t.Context().Done():
							return
						case <-time.After(20 * time.Millisecond): // as Pub/Sub, though sooner
						}
					}
				})
			}()
			// One kill in the middle of each quarter but the last, and not before it has begun.
			for kill := range quarters - 1 {
				eventually(t, "half of the quarter's effects", 4*patience, func() bool { return count() >= (2*kill+1)*n/(2*quarters) })
				s.kill()
				t.Logf("kill %d at %d of %d effects, %d of %d deliveries acknowledged", kill+1, count(), n, acked.Load(), copies*n)
				close(open[kill+1])
				s.start(t)
			}
			<-done
			if acked.Load() != int64(copies*n) {
				t.Errorf("%d deliveries acknowledged, want %d", acked.Load(), copies*n)
			}
			seen := e.Query(t, database, "SELECT COUNT(*), COUNT(DISTINCT Msg), MIN(Msg), MAX(Msg) FROM Effects")[0]
			if want := []any{fmt.Sprint(n), fmt.Sprint(n), "0", fmt.Sprint(n - 1)}; !reflect.DeepEqual(seen, want) {
				t.Errorf("effects, distinct ones, first, last: %v, want %v", seen, want)
			}
			if ids := e.Query(t, database, "SELECT COUNT(*) FROM Seen")[0][0]; ids != fmt.Sprint(n) {
				t.Errorf("%v ids seen, want %d", ids, n)
			}
			t.Logf("%d messages delivered %d times, %d deliveries failed and were repeated: %v effects", n, copies, nacked.Load(), seen[0])
			if code, _ := s.terminate(t); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

const spannerByIDRoutes = `
routes:
  byid:
    input: {format: bytes}
    spanner:
      table: Messages
      columns: {Id: message.attributes.id, Data: raw, SeenAt: message.publishTime}
`

// TestSpannerKilledUnderLoad is TestKilledUnderLoad over Spanner: what is missing at the
// end was acknowledged and lost.
func TestSpannerKilledUnderLoad(t *testing.T) {
	const topics = 16
	each := size(1250, 60)
	e := emulator.Spanner(t)
	broker := emulator.PubSub(t)
	database := e.Database(t, "CREATE TABLE Messages (Id STRING(20) NOT NULL, Data BYTES(MAX), SeenAt TIMESTAMP) PRIMARY KEY (Id)")
	s := startSpanner(t, e, database, spannerByIDRoutes, nil)
	var names []string
	for i := range topics {
		names = append(names, broker.Topic(t, project, fmt.Sprintf("topic-%d", i)))
		broker.PushTo(t, project, fmt.Sprintf("push-%d", i), names[i], s.URL+"/v1/routes/byid/push")
	}
	count := func() int { return len(e.Query(t, database, "SELECT Id FROM Messages")) }
	want := killInWaves(t, s, broker, names, each, count)
	eventually(t, "all rows", 10*patience, func() bool { return count() >= len(want) })
	if code, took := s.terminate(t); code != 0 {
		t.Errorf("exit code %d after %v", code, took)
	}
	got := e.Query(t, database, "SELECT Id, SAFE_CONVERT_BYTES_TO_STRING(Data), SeenAt > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 1 HOUR) FROM Messages")
	for _, row := range got {
		if want[row[0].(string)] != row[1] || row[2] != true {
			t.Errorf("row %v, want %q", row, want[row[0].(string)])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d rows, want %d", len(got), len(want))
	}
	t.Logf("%d messages over %d topics, killed three times: %d rows", len(want), topics, len(got))
}
