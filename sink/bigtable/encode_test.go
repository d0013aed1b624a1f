package bigtable

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/protobuf/proto"

	"github.com/pushsink/pushsink/schema"
)

// message is the generated message of a row, built the ordinary way.
func message(row *schema.RowMutation) *btpb.MutateRowsRequest_Entry {
	e := &btpb.MutateRowsRequest_Entry{RowKey: []byte(row.Key)}
	for _, op := range row.Ops {
		m := &btpb.Mutation{}
		switch op.Kind {
		case schema.SetCell:
			m.Mutation = &btpb.Mutation_SetCell_{SetCell: &btpb.Mutation_SetCell{
				FamilyName: op.Family, ColumnQualifier: []byte(op.Column), TimestampMicros: op.Micros, Value: op.Value}}
		case schema.DeleteColumn:
			m.Mutation = &btpb.Mutation_DeleteFromColumn_{DeleteFromColumn: &btpb.Mutation_DeleteFromColumn{
				FamilyName: op.Family, ColumnQualifier: []byte(op.Column)}}
		case schema.DeleteFamily:
			m.Mutation = &btpb.Mutation_DeleteFromFamily_{DeleteFromFamily: &btpb.Mutation_DeleteFromFamily{FamilyName: op.Family}}
		case schema.DeleteRow:
			m.Mutation = &btpb.Mutation_DeleteFromRow_{DeleteFromRow: &btpb.Mutation_DeleteFromRow{}}
		}
		e.Mutations = append(e.Mutations, m)
	}
	return e
}

func encoder(t testing.TB) *Route {
	t.Helper()
	return newBench(t, testConfig(nil), routeOf("r", nil)).routes[0]
}

func checkWire(t *testing.T, r *Route, row *schema.RowMutation) {
	t.Helper()
	e, err := r.Encode(&schema.Record{ID: "id"}, &schema.Mutation{Bigtable: row})
	if err != nil {
		t.Fatalf("Encode: %v", err)
	}
	want := message(row)
	marshalled, err := proto.MarshalOptions{Deterministic: true}.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	p := e.Payload.(*payload)
	if !bytes.Equal(p.wire, marshalled) {
		t.Fatalf("wire differs from the generated message's:\n got %x\nwant %x", p.wire, marshalled)
	}
	// The entry's weight is what it adds to a request.
	req := &btpb.MutateRowsRequest{TableName: "x"}
	empty := proto.Size(req)
	req.Entries = append(req.Entries, want)
	if got, want := e.Bytes, int64(proto.Size(req)-empty); got != want {
		t.Errorf("Bytes = %d, the generated message adds %d", got, want)
	}
	if e.Cost != len(row.Ops) || e.Key != row.Key || e.ID != "id" {
		t.Errorf("entry = cost %d key %q id %q", e.Cost, e.Key, e.ID)
	}
	if e.Dest.Instance != testPath || e.Dest.Table != "t" {
		t.Errorf("dest = %+v", e.Dest)
	}
}

func TestEncodeEqualsGeneratedMessage(t *testing.T) {
	r := encoder(t)
	for _, row := range []*schema.RowMutation{
		{Table: "t", Key: "k", Ops: []schema.Op{set("f", "q", "v")}},
		{Table: "t", Key: "\xff\x00 not utf-8", Ops: []schema.Op{set("f", "", ""), set("f-1.a_b", "\xff", "\x00")}},
		{Table: "t", Key: "k", Ops: []schema.Op{
			{Kind: schema.DeleteRow}, set("f", "q", "v"),
			{Kind: schema.DeleteFamily, Family: "f"}, {Kind: schema.DeleteColumn, Family: "f", Column: "q"}, {Kind: schema.DeleteColumn, Family: "f"}}},
		{Table: "t", Key: strings.Repeat("k", 4096), Ops: []schema.Op{set("f", strings.Repeat("q", 16384), strings.Repeat("v", 1<<20))}},
	} {
		checkWire(t, r, row)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	text := func(max int) string {
		b := make([]byte, rnd.IntN(max+1))
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		return string(b)
	}
	for range 500 {
		row := &schema.RowMutation{Table: "t", Key: "k" + text(300)}
		for range 1 + rnd.IntN(5) {
			op := schema.Op{Kind: schema.OpKind(1 + rnd.IntN(4))}
			if op.Kind != schema.DeleteRow {
				op.Family = []string{"f", "long-family-name"}[rnd.IntN(2)]
			}
			if op.Kind == schema.SetCell || op.Kind == schema.DeleteColumn {
				op.Column = text(200)
			}
			if op.Kind == schema.SetCell {
				op.Micros, op.Value = 1000*(1+rnd.Int64N(1<<40)), []byte(text(400))
			}
			row.Ops = append(row.Ops, op)
		}
		checkWire(t, r, row)
	}
}

// The service's limits, each at its bound and one past it. Emulators enforce none.
func TestEncodeLimits(t *testing.T) {
	r := encoder(t)
	zeros := make([]byte, 100<<20+1)
	two := strings.Repeat("é", 2048) // 4096 bytes
	many := func(n int) []schema.Op {
		ops := make([]schema.Op, n)
		for i := range ops {
			ops[i] = set("f", "q", "")
		}
		return ops
	}
	cell := func(n int) schema.Op {
		op := set("f", "q", "")
		op.Value = zeros[:n]
		return op
	}
	at := func(micros int64) schema.Op {
		op := set("f", "q", "v")
		op.Micros = micros
		return op
	}
	big := cell(100 << 20)
	for _, c := range []struct {
		name string
		key  string
		ops  []schema.Op
		code schema.Code // "" = accepted
		says string
	}{
		{"BTVAL-04 key of 4096 bytes", two, many(1), "", ""},
		{"BTVAL-04 key of 4097 bytes", two + "x", many(1), schema.TooLarge, "4096 (4 KiB)"},
		{"BTVAL-03 empty key", "", many(1), schema.KeyPartMissing, "rowKey"},
		{"BTVAL-12 empty qualifier", "k", []schema.Op{set("f", "", "v")}, "", ""},
		{"BTVAL-12 qualifier of 16384 bytes", "k", []schema.Op{set("f", strings.Repeat("q", 16384), "v")}, "", ""},
		{"BTVAL-12 qualifier of 16385 bytes", "k", []schema.Op{set("f", strings.Repeat("q", 16385), "v")}, schema.TooLarge, "16384 (16 KiB)"},
		{"BTVAL-12 qualifier of a deleted column", "k", []schema.Op{{Kind: schema.DeleteColumn, Family: "f", Column: strings.Repeat("q", 16385)}}, schema.TooLarge, "16384"},
		{"BTVAL-06 100,000 mutations", "k", many(100_000), "", ""},
		{"BTVAL-06 100,001 mutations", "k", many(100_001), schema.TooLarge, "100000"},
		{"BTVAL-07 cell of 100 MiB", "k", []schema.Op{big}, "", ""},
		{"BTVAL-07 cell above 100 MiB", "k", []schema.Op{cell(100<<20 + 1)}, schema.TooLarge, "100 MB"},
		{"BTVAL-07 row of 256 MiB", "k", []schema.Op{big, big, cell(57 << 20)}, schema.TooLarge, "256 MiB"},
		{"BTVAL-10 no mutation", "k", nil, schema.MissingField, "nothing to write"},
		{"BTVAL-01 zero timestamp", "k", []schema.Op{at(0)}, schema.TimestampOutOfRange, "timestamp"},
		{"BTVAL-01 overflowed zero time", "k", []schema.Op{at(-6795364578871345)}, schema.TimestampOutOfRange, "timestamp"},
		{"BTREP-01 server time", "k", []schema.Op{at(-1)}, schema.TimestampOutOfRange, "timestamp"},
		{"microseconds", "k", []schema.Op{at(1_700_000_000_000_001)}, schema.TimestampOutOfRange, "millisecond"},
		{"BTVAL-09 family with a space", "k", []schema.Op{set("bad name", "q", "v")}, schema.NoSuchFamily, "family"},
		{"BTVAL-09 family of 65", "k", []schema.Op{set(strings.Repeat("f", 65), "q", "v")}, schema.NoSuchFamily, "family"},
		{"BTVAL-09 family of 64", "k", []schema.Op{set(strings.Repeat("f", 64), "q", "v")}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &schema.Mutation{Bigtable: &schema.RowMutation{Table: "t", Key: c.key, Ops: c.ops}}
			e, err := r.Encode(&schema.Record{}, m)
			if c.code == "" {
				if err != nil || e.Payload == nil {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			var se *schema.Error
			if !errors.As(err, &se) || se.Code != c.code || !strings.Contains(se.Detail, c.says) || !strings.Contains(se.Detail, "route r") {
				t.Fatalf("error = %v, want %s naming %q and the route", err, c.code, c.says)
			}
			if len(c.key) > 3 && strings.Contains(err.Error(), c.key[:4]) {
				t.Errorf("the error shows the key")
			}
		})
	}
}

// A fault of ours is no *schema.Error: no policy may drop a record for it.
func TestEncodeOwnFaults(t *testing.T) {
	r := encoder(t)
	for _, m := range []*schema.Mutation{{}, row("k", schema.Op{Family: "f"}), row("k", schema.Op{Kind: 9, Family: "f"})} {
		if _, err := r.Encode(&schema.Record{}, m); err == nil || errors.As(err, new(*schema.Error)) {
			t.Errorf("%v", err)
		}
	}
}

// The request's bound, with a smaller one in its place: exactly it is accepted, and one
// byte more is not.
func TestEncodeOnePastTheRequestLimit(t *testing.T) {
	r := encoder(t)
	if r.sink.maxRequest != 256<<20 {
		t.Fatalf("the bound is %d", r.sink.maxRequest)
	}
	r.sink.maxRequest = 1 << 20
	rowOf := func(n int) *schema.Mutation { return row("k", set("f", "q", strings.Repeat("v", n))) }
	m := message(rowOf(500_000).Bigtable) // lengths take as many bytes as at the bound
	room := 500_000 + r.sink.maxRequest - proto.Size(&btpb.MutateRowsRequest{
		TableName: testPath + "/tables/t", Entries: []*btpb.MutateRowsRequest_Entry{m}})
	e, err := r.Encode(&schema.Record{}, rowOf(room))
	if err != nil {
		t.Fatalf("exactly the bound refused: %v", err)
	}
	if got := headerSize(e.Dest, "") + int(e.Bytes); got != r.sink.maxRequest {
		t.Fatalf("request of %d bytes, want %d: the bound is not where the test thinks", got, r.sink.maxRequest)
	}
	if _, err = r.Encode(&schema.Record{}, rowOf(room+1)); err == nil {
		t.Fatal("one byte more accepted")
	}
}

func BenchmarkEncode(b *testing.B) {
	r := encoder(b)
	m := telemetry(42)
	rec := &schema.Record{ID: "1"}
	b.Run("wire", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := r.Encode(rec, m); err != nil {
				b.Fatal(err)
			}
		}
	})
	// What the same row costs as a generated message, sized and marshalled once.
	b.Run("message", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			e := message(m.Bigtable)
			if _, err := proto.Marshal(e); err != nil {
				b.Fatal(err)
			}
		}
	})
}
