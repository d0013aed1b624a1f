package schema

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

// directTexts are expressions with a way past the evaluator, of the path in place of %s.
var directTexts = []string{
	"timestamp(%s)", "int(%s)", "uint(%s)", "double(%s)", "string(%s)", "bytes(%s)", "bool(%s)",
	"reverseMillis(%s)", "date(%s)", "uuid(%s)", "hash(%s, 16)", "hash(%s, 0)", "pad(%s, 4)", "pad(%s, 0)", "pad(%s, -1)", "pad(%s, 5000)",
	"reverseMillis(timestamp(%s))", "date(timestamp(%s))", "pad(hash(%s, 100), 2)", "string(int(%s))", "timestamp(timestamp(%s))",
	"timestamp(int(%s))", "string(timestamp(%s))", "int(timestamp(%s))", "uint(double(%s))", "string(uint(%s))", "pad(uint(%s), 3)",
	"%s > 1.5", "%s >= 1.5", "%s < 1.5", "%s <= 1.5", "%s == 1.5", "%s != 1.5", "%s > 1", "%s >= 1", "%s < 1", "%s <= 1", "%s == 1", "%s != 1",
	"%s == 'a'", "%s != 'a'", "%s < 'a'", "%s >= 'true'", "%s == ''", "%s > 'é'", "double(%s) >= 1.5", "string(%s) == '1'", "int(%s) == -5",
	"%s == 0.0", "%s == -0.0", "%s < 0.0", "%s == 1u", "string(%s == 1)", "%s == true", "%s != false", "%s < true", "%s >= true",
	"double(string(%s))", "bytes(string(%s))", "string(bytes(%s))", "hash(bytes(string(%s)), 7)", "uuid(string(%s))", "int(double(%s))",
}

// directPrograms compiles those that the path's type allows, and each again without the way.
func directPrograms(t testing.TB, path string) (with, without []*program) {
	t.Helper()
	c := newCompiler("f", nil)
	for _, text := range directTexts {
		text = fmt.Sprintf(text, path)
		p, ok := c.expr(&scalar{text: text, given: true}, 0, text, scope{}, wantAny).(*program)
		if !ok && path != "data.v" {
			continue
		}
		if !ok || p.direct == nil {
			t.Fatalf("%s has no direct way: %v", text, c.list)
		}
		plain := *p
		plain.direct = nil
		with, without = append(with, p), append(without, &plain)
	}
	return with, without
}

// sameDirect compares what both give of a record, values and errors; it counts the values
// that did not need the evaluator.
func sameDirect(t *testing.T, with, without []*program, rec *Record) (found int) {
	t.Helper()
	s := newState(rec)
	defer s.release()
	if len(rec.Data) > 0 {
		if err := s.tree.decode(rec.Data); err != nil {
			return 0
		}
		s.decoded = true
	}
	for i, p := range with {
		got, gotErr := p.eval(s)
		cost := s.cost
		s.cost = 0
		want, wantErr := without[i].eval(s)
		if cost != s.cost {
			t.Errorf("%s costs %d, want %d", p.text, cost, s.cost)
		}
		s.cost = 0
		if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(gotErr, wantErr) {
			t.Errorf("%s of %.200q:\ngot  %+v, %v\nwant %+v, %v", p.text, rec.Data, got, gotErr, want, wantErr)
		}
		if _, ok := p.direct.eval(s); ok {
			found++
		}
	}
	return found
}

var directValues = []string{
	`null`, `true`, `false`, `{}`, `[]`, `{"a":1}`, `0`, `-0`, `1`, `-1`, `5`, `1.0`, `1.5`, `-1.5`, `1e3`, `1e400`, `-1e400`, `1e-400`, `0.1`,
	`1767323045678`, `253402300799`, `253402300800`, `-62135596800`, `-62135596801`, `253402300799999`, `253402300800000`, `-1000`,
	`9223372036854775807`, `-9223372036854775808`, `9223372036854775808`, `18446744073709551615`, `18446744073709551616`, `9.3e18`,
	`""`, `"a"`, `"true"`, `"TRUE"`, `"t"`, `"False"`, `"0"`, `"1"`, `"-5"`, `"+5"`, `" 5"`, `"5 "`, `"1.5"`, `"1e3"`, `"0x10"`, `"1_0"`, `"NaN"`, `"Inf"`, `"-inf"`, `"1e999"`,
	`"9223372036854775807"`, `"9223372036854775808"`, `"18446744073709551615"`, `"é\u0000\n"`, `"😀"`,
	`"2026-11-30T08:00:00Z"`, `"2026-11-30T08:00:00.123Z"`, `"2026-11-30T08:00:00.123456789Z"`, `"2026-11-30T08:00:00.1234567891234Z"`,
	`"2026-11-30T08:00:00.Z"`, `"2026-11-30T08:00:00,5Z"`, `"2026-11-30t08:00:00Z"`, `"2026-11-30T08:00:00z"`, `"2026-11-30 08:00:00Z"`,
	`"2026-11-30T08:00:00+01:00"`, `"2026-11-30T08:00:00.5-23:59"`, `"2026-11-30T08:00:00+24:00"`, `"2026-11-30T08:00:00+0100"`, `"2026-11-30T08:00:00"`,
	`"2026-11-30T8:00:00Z"`, `"2026-11-30T08:00Z"`, `"2026-02-29T00:00:00Z"`, `"2024-02-29T00:00:00Z"`, `"2026-13-01T00:00:00Z"`, `"2026-00-01T00:00:00Z"`,
	`"2026-01-00T00:00:00Z"`, `"2026-01-32T00:00:00Z"`, `"2026-04-31T00:00:00Z"`, `"2026-01-01T24:00:00Z"`, `"2026-01-01T23:60:00Z"`,
	`"2026-12-31T23:59:60Z"`, `"2026-12-31T23:59:61Z"`, `"0000-01-01T00:00:00Z"`, `"0001-01-01T00:00:00Z"`, `"9999-12-31T23:59:59.999999999Z"`,
	`"0001-01-01T00:00:00+01:00"`, `"9999-12-31T23:59:59-01:00"`, `"+026-01-01T00:00:00Z"`, `"-001-01-01T00:00:00Z"`, `"10000-01-01T00:00:00Z"`,
	`"1969-12-31T23:59:59.999Z"`, `"2026-11-30T08:00:00ZZ"`, `"2026-11-30T08:00:00.5"`, `"２026-11-30T08:00:00Z"`,
}

func TestDirectIsWhatTheEvaluatorSays(t *testing.T) {
	with, without := directPrograms(t, "data.v")
	found := 0
	for _, v := range directValues {
		found += sameDirect(t, with, without, jsonRecord(`{"v":`+v+`}`))
	}
	for _, data := range []string{`{}`, `[]`, `1`, ``} {
		if n := sameDirect(t, with, without, jsonRecord(data)); n > 0 {
			t.Errorf("%q: %d values of nothing", data, n)
		}
	}
	if found < 1000 {
		t.Errorf("only %d values without the evaluator", found)
	}
	// What a document of JSON does not hold: bytes, times, attributes.
	records := []*Record{
		{Data: []byte("\xff\xfe")}, {Data: []byte("é"), Published: time.Unix(1, 5)},
		{Data: []byte("12"), Attributes: map[string]string{"v": "7"}, Published: time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))},
		{Data: []byte("1"), Attributes: map[string]string{"v": "\xff"}, Published: time.Date(12026, 1, 2, 3, 4, 5, 6, time.UTC)},
	}
	for _, path := range []string{"raw", "message.publishTime", "message.attributes.v"} {
		with, without := directPrograms(t, path)
		found := 0
		for _, rec := range records {
			found += sameDirect(t, with, without, rec)
		}
		if len(with) < 4 || found < 10 {
			t.Errorf("%s: %d expressions, %d values without the evaluator", path, len(with), found)
		}
	}
}

// FuzzDirect holds the ways past the evaluator against it.
func FuzzDirect(f *testing.F) {
	for _, v := range directValues {
		f.Add([]byte(v))
	}
	with, without := directPrograms(f, "data.v")
	f.Fuzz(func(t *testing.T, v []byte) {
		if len(v) < 1000 { // a cost above MaxCost is not the question
			sameDirect(t, with, without, jsonRecord(`{"v":`+string(v)+`}`))
		}
	})
}
