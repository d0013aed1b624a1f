package reading

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/spanner"
)

// Reading is the record as encoding/json reads it.
type Reading struct {
	Device   string    `json:"device"`
	Seq      int64     `json:"seq"`
	Ts       time.Time `json:"ts"`
	Temp     float64   `json:"temp"`
	Humidity float64   `json:"humidity"`
	Pressure float64   `json:"pressure"`
	State    string    `json:"state"`
	Note     string    `json:"note"`
}

// Push is the part of a Pub/Sub push that matters.
type Push struct {
	Message struct {
		Data []byte `json:"data"`
	} `json:"message"`
}

// Key is the row key.
func (r *Reading) Key() string { return r.Device + "#" + strconv.FormatInt(r.Seq, 10) }

// Mutation is the row's five cells.
func (r *Reading) Mutation() *bigtable.Mutation {
	ts := bigtable.Time(r.Ts).TruncateToMilliseconds()
	m := bigtable.NewMutation()
	m.Set(Family, "temp", ts, float(r.Temp))
	m.Set(Family, "humidity", ts, float(r.Humidity))
	m.Set(Family, "pressure", ts, float(r.Pressure))
	m.Set(Family, "state", ts, []byte(r.State))
	m.Set(Family, "note", ts, []byte(r.Note))
	return m
}

func float(f float64) []byte {
	return binary.BigEndian.AppendUint64(nil, math.Float64bits(f))
}

// Row is the record as a row of Spanner.
func (r *Reading) Row() *spanner.Mutation {
	return spanner.InsertOrUpdate(Table,
		[]string{"Device", "Seq", "Ts", "Temp", "Humidity", "Pressure", "State", "Note"},
		[]any{r.Device, r.Seq, r.Ts, r.Temp, r.Humidity, r.Pressure, r.State, r.Note})
}

// Where the rows go.
const (
	Project   = "bench"
	Instance  = "bench"
	TableName = "readings" // in Bigtable
	Family    = "m"
	Database  = "projects/bench/instances/bench/databases/bench"
	Table     = "Readings" // in Spanner
)

// Routes is the routes file that makes the same row of a reading.
const Routes = `routes:
  readings:
    default: true
    bigtable:
      table: readings
      rowKey: "{data.device}#{data.seq}"
      timestamp: timestamp(data.ts)
      set:
        - {family: m, column: temp, value: data.temp, as: float64}
        - {family: m, column: humidity, value: data.humidity, as: float64}
        - {family: m, column: pressure, value: data.pressure, as: float64}
        - {family: m, column: state, value: data.state, as: string}
        - {family: m, column: note, value: data.note, as: string}
`

// SpannerRoutes is the routes file that makes the same row of Spanner.
const SpannerRoutes = `routes:
  readings:
    default: true
    spanner:
      database: ` + Database + `
      table: Readings
      columns: {Device: data.device, Seq: data.seq, Ts: data.ts, Temp: data.temp, Humidity: data.humidity, Pressure: data.pressure, State: data.state, Note: data.note}
`

// Size of a record in bytes.
const Size = 500

// FirstSeq is the lowest sequence number: all have as many digits.
const FirstSeq = 100_000_000_000

// Digits of a sequence number. They are a whole number of base64 groups.
const Digits = 12

// Example is the record with sequence number FirstSeq, and where its digits begin: at a
// multiple of three, so that a new number changes nothing else of the record's base64.
func Example() (record []byte, digits int) {
	head := `{"device":"sensor-0042","seq":`
	tail := `,"ts":"2026-11-30T08:00:00.123Z","temp":21.375,"humidity":0.4825,"pressure":1013.25,` +
		`"state":"running","note":"after the filter was changed","site":{"name":"eu-west-1","floor":3,"room":"b-17"},` +
		`"firmware":{"version":"4.2.1","build":20260102},"history":[20.5,20.75,21.0,21.125,21.25],"ok":true,` +
		`"source":"gateway-7","signal":-71,"battery":88,"owner":"`
	text := head + strconv.Itoa(FirstSeq) + tail
	text += strings.Repeat("x", Size-len(text)-len(`"}`)) + `"}`
	if len(head)%3 != 0 {
		panic(fmt.Sprintf("reading: the digits begin at %d", len(head)))
	}
	return []byte(text), len(head)
}
