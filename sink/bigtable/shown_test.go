package bigtable

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	adminpb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// What a record named is in no error, whatever the service answers with which words: not
// the name of its table, nor of a family. The gRPC code is. Names of the routes file, and
// the service's words about them, are shown.
func TestNamesOfRecordsAreNotShown(t *testing.T) {
	const name = "secret-0042"
	texts := []string{
		`table "projects/p/instances/inst/tables/NAME" not found`, `unknown family "NAME"`,
		"Requested column family not found: NAME", "quota of NAME", "the reason",
	}
	templated := func(create bool) func(*schema.BigtableTarget) {
		return func(b *schema.BigtableTarget) {
			if create {
				creating("f")(b)
			}
			b.Table = ""
		}
	}
	for _, c := range []struct {
		what  string
		route *schema.Route
		row   *schema.Mutation
		data  bool // the name is a record's
	}{
		{"a templated table", routeOf("r", templated(false)), row("k"), true},
		{"a templated table that is made", routeOf("r", templated(true)), row("k"), true},
		{"a templated family", routeOf("r", func(b *schema.BigtableTarget) { b.Used = nil }), row("k", set(name, "q", "v")), true},
		{"a templated family that is made", routeOf("r", func(b *schema.BigtableTarget) { creating("f")(b); b.Used = nil }), row("k", set(name, "q", "v")), true},
		{"a table of the routes file", routeOf("r", func(b *schema.BigtableTarget) { b.Table = name }), row("k"), false},
	} {
		var answer *status.Status
		whole := false
		b := opened(t, &service{mutate: func(_ int, req *btpb.MutateRowsRequest, st btpb.Bigtable_MutateRowsServer) error {
			if whole {
				return answer.Err()
			}
			resp := &btpb.MutateRowsResponse{}
			for i := range req.Entries {
				resp.Entries = append(resp.Entries, &btpb.MutateRowsResponse_Entry{Index: int64(i), Status: answer.Proto()})
			}
			return st.Send(resp)
		},
			get:    func(int, *adminpb.GetTableRequest) (*adminpb.Table, error) { return nil, answer.Err() },
			create: func(int, *adminpb.CreateTableRequest) error { return answer.Err() },
		}, c.route)
		c.row.Bigtable.Table = cmp.Or(c.route.Bigtable.Table, name)
		e := b.entry(0, c.row)
		show := func(where string, err error) {
			if err == nil {
				t.Errorf("%s, %v: %s has no error", c.what, answer, where)
				return
			}
			got, plain := err.Error(), answer.Message() == "the reason"
			switch {
			case c.data && strings.Contains(got, name):
				t.Errorf("%s, %v: %s shows it: %s", c.what, answer, where, got)
			case !c.data && plain && !strings.Contains(got, "the reason"):
				t.Errorf("%s, %v: %s does not say why: %s", c.what, answer, where, got)
			case plain && !strings.Contains(got, answer.Code().String()):
				t.Errorf("%s, %v: %s is without its code: %s", c.what, answer, where, got)
			}
		}
		for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
			for _, text := range texts {
				answer = status.New(code, strings.ReplaceAll(text, "NAME", name))
				for _, whole = range []bool{false, true} {
					show("alone", b.write(e)[0].Err)
					for i, o := range b.write(e, e) {
						show(fmt.Sprint("entry ", i), o.Err)
					}
				}
				if target := c.route.Bigtable; target.Create && target.Table == "" {
					if made := b.Ensure(t.Context(), e.Dest); made.Kind != sink.Applied {
						show("ensure", made.Err)
					}
				}
			}
		}
	}
}
