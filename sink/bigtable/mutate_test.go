package bigtable

import (
	"strings"
	"testing"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// answers are responses as they come, and as they must not be taken for an OK.
func answers(t testing.TB) map[string][]byte {
	marshal := func(m *btpb.MutateRowsResponse) []byte {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	of := func(es ...*btpb.MutateRowsResponse_Entry) []byte {
		return marshal(&btpb.MutateRowsResponse{Entries: es})
	}
	entry := func(inner ...byte) []byte { return protowire.AppendBytes([]byte{1<<3 | 2}, inner) }
	return map[string][]byte{
		"empty":              {},
		"two OK":             of(entryStatus(0, codes.OK, ""), entryStatus(1, codes.OK, "")),
		"OK and not":         of(entryStatus(0, codes.OK, ""), entryStatus(300, codes.Internal, "x")),
		"OK with a text":     of(entryStatus(7, codes.OK, "x")),
		"no status":          of(&btpb.MutateRowsResponse_Entry{Index: 1}),
		"nothing":            of(&btpb.MutateRowsResponse_Entry{}),
		"negative":           of(entryStatus(-1, codes.OK, "")),
		"rate limit":         marshal(&btpb.MutateRowsResponse{Entries: []*btpb.MutateRowsResponse_Entry{entryStatus(0, codes.OK, "")}, RateLimitInfo: &btpb.RateLimitInfo{Factor: 1, Period: durationpb.New(1)}}),
		"status twice":       entry(2<<3|2, 0, 2<<3|2, 2, 1<<3, 13),
		"status then OK":     entry(2<<3|2, 2, 1<<3, 13, 2<<3|2, 0),
		"index behind":       entry(2<<3|2, 0, 1<<3, 5),
		"index twice":        entry(1<<3, 1, 1<<3, 2, 2<<3|2, 0),
		"code 0 spelt":       entry(1<<3, 1, 2<<3|2, 2, 1<<3, 0),
		"code past int32":    entry(2<<3|2, 6, 1<<3, 0x80, 0x80, 0x80, 0x80, 0x10),
		"cut in an entry":    {1<<3 | 2, 5, 1 << 3, 1},
		"cut in a length":    {1<<3 | 2},
		"index cut":          entry(1<<3, 0x80),
		"status as a number": entry(2<<3, 0),
		"another field":      entry(1<<3, 1, 2<<3|2, 0, 9<<3, 1),
		"text not UTF-8":     entry(2<<3|2, 3, 2<<3|2, 1, 0xff),
		"group":              {1<<3 | 3, 1<<3 | 4},
	}
}

// checkAnswer holds what is read of b against what protobuf reads.
func checkAnswer(t *testing.T, b []byte) {
	t.Helper()
	a := answer{entries: []rowStatus{{index: 3, set: true}}} // of the message before
	err := a.Unmarshal(b)
	var want btpb.MutateRowsResponse
	if wantErr := proto.Unmarshal(b, &want); (wantErr != nil) != (err != nil) {
		t.Fatalf("%x: error %v, protobuf's %v", b, err, wantErr)
	}
	if err != nil {
		if len(a.entries) > 0 {
			t.Fatalf("%x: malformed, and yet %d statuses", b, len(a.entries))
		}
		return
	}
	if len(a.entries) != len(want.Entries) {
		t.Fatalf("%x: %d entries, want %d", b, len(a.entries), len(want.Entries))
	}
	for i, e := range want.Entries {
		got := a.entries[i]
		if got.index != e.Index || got.set != (e.Status != nil) {
			t.Fatalf("%x: entry %d: %+v, want %v", b, i, got, e)
		}
		if code := e.GetStatus().GetCode(); code == 0 && got.not != nil || code != 0 && !proto.Equal(got.not, e.Status) {
			t.Fatalf("%x: entry %d: status %v, want %v", b, i, got.not, e.Status)
		}
	}
}

func TestAnswerAsProtobufReadsIt(t *testing.T) {
	for name, b := range answers(t) {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) { checkAnswer(t, b) })
	}
}

// The short way is there to be used, and it takes in nothing that is not plainly an OK.
func TestAnswerShortWay(t *testing.T) {
	all := answers(t)
	for name, want := range map[string]bool{"empty": true, "two OK": true, "OK and not": false, "no status": false,
		"status then OK": false, "status twice": false, "index behind": false, "code 0 spelt": false, "rate limit": false} {
		var a answer
		if got := a.plain(all[name]); got != want {
			t.Errorf("%s: plain = %v, want %v", name, got, want)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	for _, b := range answers(f) {
		f.Add(b)
	}
	f.Fuzz(checkAnswer)
}
