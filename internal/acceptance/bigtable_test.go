package acceptance

import (
	"testing"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// store reads and prepares an emulator directly, past the product.
type store struct {
	admin *bigtable.AdminClient
	data  *bigtable.Client
}

func openStore(t testing.TB, addr string) *store {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(256<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	admin, err := bigtable.NewAdminClient(t.Context(), project, instance, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	data, err := bigtable.NewClientWithConfig(t.Context(), project, instance,
		bigtable.ClientConfig{MetricsProvider: bigtable.NoopMetricsProvider{}, DisableSession: true, DisableDirectAccess: true},
		option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	return &store{admin: admin, data: data}
}

// create makes a table that keeps every version.
func (s *store) create(t testing.TB, table string, families ...string) {
	t.Helper()
	conf := &bigtable.TableConf{TableID: table, ColumnFamilies: map[string]bigtable.Family{}}
	for _, f := range families {
		conf.ColumnFamilies[f] = bigtable.Family{GCPolicy: bigtable.NoGcPolicy()}
	}
	if err := s.admin.CreateTableFromConf(t.Context(), conf); err != nil {
		t.Fatal(err)
	}
}

// cell is one version of a cell.
type cell struct {
	Micros int64
	Value  string
}

// rows reads a whole table: key -> "family:qualifier" -> versions.
func (s *store) rows(t testing.TB, table string) map[string]map[string][]cell {
	t.Helper()
	all := map[string]map[string][]cell{}
	err := s.data.Open(table).ReadRows(t.Context(), bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
		row := map[string][]cell{}
		for _, items := range r {
			for _, item := range items {
				row[item.Column] = append(row[item.Column], cell{int64(item.Timestamp), string(item.Value)})
			}
		}
		all[r.Key()] = row
		return true
	})
	if err != nil {
		t.Fatalf("read %s: %v", table, err)
	}
	return all
}

// count is the number of rows.
func (s *store) count(t testing.TB, table string) int {
	t.Helper()
	n := 0
	err := s.data.Open(table).ReadRows(t.Context(), bigtable.InfiniteRange(""),
		func(bigtable.Row) bool { n++; return true },
		bigtable.RowFilter(bigtable.StripValueFilter()))
	if err != nil {
		t.Fatalf("count %s: %v", table, err)
	}
	return n
}
