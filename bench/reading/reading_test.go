package reading

import (
	"encoding/json"
	"testing"
	"time"
)

func TestExample(t *testing.T) {
	record, digits := Example()
	if len(record) != Size || digits%3 != 0 || string(record[digits:digits+Digits]) != "100000000000" {
		t.Errorf("%d bytes, %q at %d", len(record), record[digits:digits+Digits], digits)
	}
	var got Reading
	if err := json.Unmarshal(record, &got); err != nil {
		t.Fatal(err)
	}
	want := Reading{
		Device: "sensor-0042", Seq: FirstSeq, Ts: time.Date(2026, 11, 30, 8, 0, 0, 123e6, time.UTC),
		Temp: 21.375, Humidity: .4825, Pressure: 1013.25, State: "running", Note: "after the filter was changed",
	}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got.Key() != "sensor-0042#100000000000" {
		t.Errorf("key %s", got.Key())
	}
}
