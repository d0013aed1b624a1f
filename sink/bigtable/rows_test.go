package bigtable

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	adminpb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pushsink/pushsink/sink"
)

func keysOf(t *testing.T, b *bench, q Query) []string {
	t.Helper()
	q.Dest = tableT
	keys := []string{}
	if err := b.ReadRows(t.Context(), q, func(r Row) error { keys = append(keys, r.Key); return nil }); err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestReadRows(t *testing.T) {
	b := onFake(t, routeOf("r", nil))
	b.makeTable("t", map[string]*adminpb.GcRule{"f": nil, "g": nil})
	for _, k := range []string{"a#1", "a#2", "a#3", "b#1", "b#2", "\xff\xff", "\xff\xffz"} {
		if got := kinds(b.write(b.entry(0, row(k, set("f", "q", "1"), set("g", "", "\x00"))))); got != "applied" {
			t.Fatal(got)
		}
	}
	for _, c := range []struct {
		q    Query
		want string
	}{
		{Query{}, "a#1 a#2 a#3 b#1 b#2 \xff\xff \xff\xffz"},
		{Query{Prefix: "a#"}, "a#1 a#2 a#3"},
		{Query{Prefix: "\xff\xff"}, "\xff\xff \xff\xffz"},
		{Query{Prefix: "c"}, ""},
		{Query{Limit: 2}, "a#1 a#2"},
		{Query{Prefix: "b", Limit: 1}, "b#1"},
		{Query{Start: "a#2"}, "a#2 a#3 b#1 b#2 \xff\xff \xff\xffz"},
		{Query{Start: "a#2", End: "b#1"}, "a#2 a#3"},
		{Query{Start: "b", End: "a"}, ""},
		{Query{Prefix: "a#", Start: "a#2", End: "a#3"}, "a#2"},
		{Query{PageToken: PageToken("a#2"), Limit: 2}, "a#3 b#1"},
		{Query{Prefix: "a#", PageToken: PageToken("a#2")}, "a#3"},
		{Query{Prefix: "a#", PageToken: PageToken("a#3")}, ""},
		{Query{Prefix: "b#", PageToken: PageToken("a#3")}, "b#1 b#2"},
	} {
		if got := strings.Join(keysOf(t, b, c.q), " "); got != c.want {
			t.Errorf("%+v: %q, want %q", c.q, got, c.want)
		}
	}
	want := []string{"b#2/f:q@1700000000000000=1", "b#2/g:@1700000000000000=\x00"}
	var got []string
	if err := b.ReadRows(t.Context(), Query{Dest: tableT, Start: "b#2", Limit: 1}, func(r Row) error {
		for _, c := range r.Cells {
			got = append(got, fmt.Sprintf("%s/%s:%s@%d=%s", r.Key, c.Family, c.Column, c.TimestampMicros, c.Value))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(got) // families come in any order
	if !slices.Equal(got, want) {
		t.Errorf("cells %q, want %q", got, want)
	}

	stop := errors.New("stop")
	n := 0
	if err := b.ReadRows(t.Context(), Query{Dest: tableT}, func(Row) error { n++; return stop }); err != stop || n != 1 {
		t.Errorf("a callback's error: %v after %d rows", err, n)
	}
	for _, token := range []string{"!", "YQ=="} {
		if err := b.ReadRows(t.Context(), Query{Dest: tableT, PageToken: token}, nil); err != ErrPageToken {
			t.Errorf("token %q: %v", token, err)
		}
	}
	err := b.ReadRows(t.Context(), Query{Dest: sink.Dest{Instance: testPath, Table: "none"}}, nil)
	if inspect(err, true).code != codes.NotFound || strings.Contains(err.Error(), "projects/") {
		t.Errorf("no table: %v", err)
	}
}

// Without the writer's client a read opens a connection of its own, and closes it.
func TestReadRowsWithoutClient(t *testing.T) {
	s := &service{}
	cfg := testConfig(nil)
	cfg.Endpoint = tcp(t, s)
	b := newBench(t, cfg, routeOf("r", nil))
	before := usage([2]int{1 << 30, 1 << 30})
	if got := keysOf(t, b, Query{}); len(got) != 0 {
		t.Error(got)
	}
	if got := usage(before); got[0] > before[0] || got[1] > before[1] {
		t.Errorf("goroutines and files %v, before %v", got, before)
	}
	if len(b.clients) != 0 || len(s.reads) != 1 {
		t.Errorf("%d clients, %d reads", len(b.clients), len(s.reads))
	}
}

func chunk(key, family, column, value string, commit bool) *btpb.ReadRowsResponse_CellChunk {
	c := &btpb.ReadRowsResponse_CellChunk{Value: []byte(value), TimestampMicros: 1000}
	if key != "" {
		c.RowKey = []byte(key)
	}
	if family != "" {
		c.FamilyName = wrapperspb.String(family)
		c.Qualifier = wrapperspb.Bytes([]byte(column))
	}
	if commit {
		c.RowStatus = &btpb.ReadRowsResponse_CellChunk_CommitRow{CommitRow: true}
	}
	return c
}

// A scan that breaks goes on behind the last row it delivered or heard of, with what is
// left of its limit, and ends when it gets nowhere.
func TestReadRowsResumes(t *testing.T) {
	s := &service{read: func(call int, req *btpb.ReadRowsRequest, st btpb.Bigtable_ReadRowsServer) error {
		switch call {
		case 1:
			_ = st.Send(&btpb.ReadRowsResponse{Chunks: []*btpb.ReadRowsResponse_CellChunk{
				chunk("a", "f", "q", "1", true), chunk("b", "f", "q", "half", false)}})
			return status.Error(codes.Unavailable, "cut")
		case 2:
			_ = st.Send(&btpb.ReadRowsResponse{LastScannedRowKey: []byte("bb")})
			return status.Error(codes.Unavailable, "cut")
		case 3:
			return status.Error(codes.Aborted, "cut")
		default:
			return st.Send(&btpb.ReadRowsResponse{Chunks: []*btpb.ReadRowsResponse_CellChunk{chunk("c", "f", "q", "2", true)}})
		}
	}}
	b := opened(t, s, routeOf("r", nil))
	if got := keysOf(t, b, Query{Limit: 5, End: "x"}); !slices.Equal(got, []string{"a", "c"}) {
		t.Fatalf("rows %q", got)
	}
	var asked []string
	for _, r := range s.reads {
		rr := r.Rows.RowRanges[0]
		asked = append(asked, fmt.Sprintf("[%q, %q) %d", rr.GetStartKeyClosed(), rr.GetEndKeyOpen(), r.RowsLimit))
	}
	want := []string{`["", "x") 5`, `["a\x00", "x") 4`, `["bb\x00", "x") 4`, `["bb\x00", "x") 4`}
	if !slices.Equal(asked, want) {
		t.Errorf("asked for %q, want %q", asked, want)
	}

	// One that gets a row further each time is never given up.
	s = &service{read: func(call int, req *btpb.ReadRowsRequest, st btpb.Bigtable_ReadRowsServer) error {
		if call > 3*readAttempts {
			return nil
		}
		_ = st.Send(&btpb.ReadRowsResponse{Chunks: []*btpb.ReadRowsResponse_CellChunk{chunk(fmt.Sprintf("%02d", call), "f", "q", "1", true)}})
		return status.Error(codes.Unavailable, "cut")
	}}
	b = opened(t, s, routeOf("r", nil))
	if got := keysOf(t, b, Query{}); len(got) != 3*readAttempts {
		t.Errorf("rows %q", got)
	}

	s = &service{read: func(int, *btpb.ReadRowsRequest, btpb.Bigtable_ReadRowsServer) error {
		return status.Error(codes.Unavailable, "down, and the key is secret")
	}}
	b = opened(t, s, routeOf("r", nil))
	err := b.ReadRows(t.Context(), Query{Dest: tableT}, func(Row) error { return nil })
	if err == nil || strings.Contains(err.Error(), "secret") || len(s.reads) != readAttempts {
		t.Errorf("%v after %d tries", err, len(s.reads))
	}
}

func TestChunks(t *testing.T) {
	part := func(c *btpb.ReadRowsResponse_CellChunk, size int32) *btpb.ReadRowsResponse_CellChunk {
		c.ValueSize = size
		return c
	}
	rest := func(value string, commit bool) *btpb.ReadRowsResponse_CellChunk {
		c := chunk("", "", "", value, commit)
		c.TimestampMicros = 0
		return c
	}
	reset := &btpb.ReadRowsResponse_CellChunk{RowStatus: &btpb.ReadRowsResponse_CellChunk_ResetRow{ResetRow: true}}
	noColumn := chunk("", "g", "", "x", true)
	noColumn.Qualifier = nil
	onlyColumn := chunk("", "", "", "2", true)
	onlyColumn.Qualifier = wrapperspb.Bytes([]byte("r"))
	type chunks = []*btpb.ReadRowsResponse_CellChunk
	for _, c := range []struct {
		name   string
		chunks chunks
		want   string // rows, or "error"
	}{
		{"two cells", chunks{chunk("a", "f", "q", "1", false), chunk("", "g", "", "2", true)}, "a f:q=1 g:=2"},
		{"family goes on", chunks{chunk("a", "f", "q", "1", false), onlyColumn}, "a f:q=1 f:r=2"},
		{"column goes on", chunks{chunk("a", "f", "q", "1", false), chunk("", "", "", "0", true)}, "a f:q=1 f:q=0"},
		{"split value", chunks{part(chunk("a", "f", "q", "12", false), 5), part(rest("34", false), 5), rest("5", true)}, "a f:q=12345"},
		{"split value, empty end", chunks{part(chunk("a", "f", "q", "12", false), 2), rest("", true)}, "a f:q=12"},
		{"reset", chunks{chunk("a", "f", "q", "1", false), reset, chunk("a", "f", "q", "2", true)}, "a f:q=2"},
		{"reset inside a value", chunks{part(chunk("a", "f", "q", "1", false), 2), reset, chunk("b", "f", "q", "2", true)}, "b f:q=2"},
		{"two rows", chunks{chunk("a", "f", "q", "1", true), chunk("b", "f", "q", "2", true)}, "a f:q=1 | b f:q=2"},
		{"keys go back", chunks{chunk("b", "f", "q", "1", true), chunk("a", "f", "q", "2", true)}, "error"},
		{"a key twice", chunks{chunk("a", "f", "q", "1", true), chunk("a", "f", "q", "2", true)}, "error"},
		{"no key", chunks{chunk("", "f", "q", "1", true)}, "error"},
		{"no family", chunks{chunk("a", "", "", "1", true)}, "error"},
		{"another key inside a row", chunks{chunk("a", "f", "q", "1", false), chunk("b", "f", "q", "2", true)}, "error"},
		{"family without column", chunks{chunk("a", "f", "q", "1", false), noColumn}, "error"},
		{"column inside a value", chunks{part(chunk("a", "f", "q", "1", false), 2), chunk("", "f", "q", "2", true)}, "error"},
		{"commit inside a value", chunks{part(chunk("a", "f", "q", "1", true), 2)}, "error"},
		{"reset of nothing", chunks{reset}, "error"},
		{"cut", chunks{chunk("a", "f", "q", "1", false)}, "error"},
		{"nothing", nil, ""},
	} {
		if got := assembled(c.chunks); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func assembled(chunks []*btpb.ReadRowsResponse_CellChunk) string {
	var a assembler
	var rows []string
	for _, c := range chunks {
		r, err := a.add(c)
		if err != nil {
			return "error"
		}
		if r != nil {
			line := r.Key
			for _, c := range r.Cells {
				line += fmt.Sprintf(" %s:%s=%s", c.Family, c.Column, c.Value)
			}
			rows = append(rows, line)
		}
	}
	if a.end() != nil {
		return "error"
	}
	return strings.Join(rows, " | ")
}

// Whatever chunks come: no panic, keys only grow, and a row has cells.
func FuzzChunks(f *testing.F) {
	for _, seed := range []*btpb.ReadRowsResponse{
		{Chunks: []*btpb.ReadRowsResponse_CellChunk{chunk("a", "f", "q", "1", false), chunk("", "", "", "2", true), chunk("b", "f", "q", "3", true)}},
		{Chunks: []*btpb.ReadRowsResponse_CellChunk{chunk("a", "f", "q", "1", false), {RowStatus: &btpb.ReadRowsResponse_CellChunk_ResetRow{ResetRow: true}}}},
	} {
		b, _ := proto.Marshal(seed)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var resp btpb.ReadRowsResponse
		if proto.Unmarshal(data, &resp) != nil {
			return
		}
		var a assembler
		last := ""
		for _, c := range resp.Chunks {
			r, err := a.add(c)
			if err != nil {
				return
			}
			if r == nil {
				continue
			}
			if r.Key <= last || len(r.Cells) == 0 {
				t.Fatalf("row %q with %d cells after %q", r.Key, len(r.Cells), last)
			}
			last = r.Key
		}
	})
}
