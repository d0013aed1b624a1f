package main

import (
	"bytes"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/pushsink/pushsink/bench/load"
	"github.com/pushsink/pushsink/bench/null"
	"github.com/pushsink/pushsink/bench/reading"
)

// testBinaries builds from go build's cache.
func testBinaries(t *testing.T) *binaries {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	return &binaries{root: root, dir: t.TempDir(), temp: t.TempDir(), built: map[string]string{}}
}

// writes collects what a store was sent, as rows of either.
type writes struct {
	mu   sync.Mutex // guards rows
	rows map[string]string
}

// inspect is for null.Options.
func (w *writes) inspect(method string, message []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	row := func(key []byte, cells []*bigtablepb.Mutation) {
		var text []string
		for _, m := range cells {
			text = append(text, spell(m))
		}
		slices.Sort(text) // of different columns, so in no order
		w.rows[string(key)] = strings.Join(text, "\n")
	}
	spannerRow := func(m *spannerpb.Mutation) {
		write := m.GetInsertOrUpdate()
		var text []string
		for i, column := range write.GetColumns() {
			text = append(text, column+"="+spell(write.GetValues()[0].GetValues()[i]))
		}
		slices.Sort(text)
		w.rows[write.GetTable()+" "+text[0]] = strings.Join(text, "\n")
	}
	switch method[strings.LastIndexByte(method, '/')+1:] {
	case "MutateRow":
		var r bigtablepb.MutateRowRequest
		if proto.Unmarshal(message, &r) == nil {
			row(r.RowKey, r.Mutations)
		}
	case "MutateRows":
		var r bigtablepb.MutateRowsRequest
		if proto.Unmarshal(message, &r) == nil {
			for _, e := range r.Entries {
				row(e.RowKey, e.Mutations)
			}
		}
	case "Commit":
		var r spannerpb.CommitRequest
		if proto.Unmarshal(message, &r) == nil {
			for _, m := range r.Mutations {
				spannerRow(m)
			}
		}
	case "BatchWrite":
		var r spannerpb.BatchWriteRequest
		if proto.Unmarshal(message, &r) == nil {
			for _, g := range r.MutationGroups {
				for _, m := range g.Mutations {
					spannerRow(m)
				}
			}
		}
	}
}

func spell(m proto.Message) string {
	text, err := prototext.MarshalOptions{}.Marshal(m)
	if err != nil {
		return err.Error()
	}
	return string(bytes.ReplaceAll(text, []byte("  "), []byte(" "))) // the spaces vary on purpose
}

// TestContendersDoTheSameWork: of the same request all write the same row.
func TestContendersDoTheSameWork(t *testing.T) {
	if testing.Short() {
		t.Skip("builds every contender")
	}
	b := testBinaries(t)
	want := map[bool]string{} // by store
	for _, s := range []scenario{
		{id: "push", contenders: []string{naive, benthos, benthosMapped, ours}},
		{id: "unwrapped", contenders: []string{naive, ours}, shape: load.Unwrapped},
		{id: "ndjson", contenders: []string{"naive-batch", benthos, benthosMapped, ours, bulk}, shape: load.NDJSON, records: 3},
		{id: "spanner", contenders: []string{"naive-spanner", ours}, spanner: true},
	} {
		for _, name := range s.contenders {
			t.Run(s.id+"/"+name, func(t *testing.T) {
				w := &writes{rows: map[string]string{}}
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				backend, err := null.Serve(l, null.Options{Inspect: w.inspect})
				if err != nil {
					t.Fatal(err)
				}
				defer backend.Close()
				x, err := b.start(t.Context(), name, &s, l.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer x.Stop()
				run, err := load.Start(load.Options{Addr: x.addr, Connections: 1, Measure: time.Millisecond, Patience: time.Minute,
					Request: load.Request{Path: x.path(s.shape), Shape: s.shape, Records: s.records}})
				if err != nil {
					t.Fatal(err)
				}
				r, err := run.Wait()
				if err != nil || r.Failures() > 0 || r.Records == 0 {
					t.Fatalf("%+v, %v\n%s", r, err, x.Output())
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				if n := int64(len(w.rows)); !s.spanner && n != r.Records {
					t.Errorf("%d rows of %d records", n, r.Records)
				}
				key := "sensor-0042#100000000000"
				if s.spanner {
					key = reading.Table + ` Device=string_value:"sensor-0042"`
				}
				row := w.rows[key]
				if row == "" {
					t.Fatalf("no row %s in %v", key, w.rows)
				}
				if s.spanner { // the last row of the device is kept
					row = strings.ReplaceAll(row, lastSeq(r), "SEQ")
				}
				if want[s.spanner] == "" {
					want[s.spanner] = row
				}
				if row != want[s.spanner] {
					t.Errorf("it writes\n%s\nothers write\n%s", row, want[s.spanner])
				}
			})
		}
	}
	for _, row := range want {
		if n := strings.Count(row, "\n") + 1; n != 5 && n != 8 {
			t.Errorf("a row of %d cells:\n%s", n, row)
		}
	}
}

// lastSeq is the last sequence number of a run of single records, as text.
func lastSeq(r *load.Result) string {
	return strconv.FormatInt(reading.FirstSeq+r.NextSeq-1, 10)
}

// TestSmoke: a round of the benchmark, in which naive and pushsink have written all that
// they answered. Its window is longer than a machine stands still.
func TestSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the server")
	}
	picked, _, err := pickAll("push-256", naive+","+ours)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	r := &runner{binaries: testBinaries(t), rounds: 1, warm: time.Second / 2, measure: 6 * time.Second, log: &log}
	results, err := r.all(t.Context(), picked, false, "")
	t.Logf("%s", log.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range results.Scenarios[0].Rows {
		for _, turn := range row.Turns {
			if turn.Answered == 0 || turn.Written < turn.Answered || turn.CPU <= 0 || turn.Allocs <= 0 || turn.Batch < 1 || turn.Memory == 0 {
				t.Errorf("%s: %+v", row.Contender, turn)
			}
		}
	}
	if err := results.Markdown(io.Discard); err != nil {
		t.Error(err)
	}
}
