package null

import (
	"context"
	"fmt"
	"math"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"cloud.google.com/go/spanner"
	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func serve(t *testing.T, o Options) (*Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Serve(l, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, l.Addr().String()
}

func options(addr string) []option.ClientOption {
	return []option.ClientOption{
		option.WithEndpoint("passthrough:///" + addr), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
	}
}

func TestBigtableClientIsAnsweredAndCounted(t *testing.T) {
	s, addr := serve(t, Options{})
	client, err := bigtable.NewClientWithConfig(t.Context(), "p", "i",
		bigtable.ClientConfig{MetricsProvider: bigtable.NoopMetricsProvider{}}, options(addr)...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	table := client.Open("t")
	one := bigtable.NewMutation()
	one.Set("m", "c", 0, []byte("v"))
	if err := table.Apply(t.Context(), "k", one); err != nil {
		t.Fatal(err)
	}
	var keys []string
	var mutations []*bigtable.Mutation
	for i := range 300 {
		keys, mutations = append(keys, fmt.Sprint("k", i)), append(mutations, one)
	}
	if failed, err := table.ApplyBulk(t.Context(), keys, mutations); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	if got, want := s.Counters(), (Counters{Requests: 2, Entries: 301, Answered: 301}); got != want {
		t.Errorf("counters %+v, want %+v", got, want)
	}
}

func TestSpannerClientIsAnsweredAndCounted(t *testing.T) {
	s, addr := serve(t, Options{})
	client, err := spanner.NewClientWithConfig(t.Context(), "projects/p/instances/i/databases/d",
		spanner.ClientConfig{DisableNativeMetrics: true}, options(addr)...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	row := spanner.InsertOrUpdate(Table, []string{"Device", "Seq"}, []any{"d", 1})
	if _, err := client.Apply(t.Context(), []*spanner.Mutation{row, row}, spanner.ApplyAtLeastOnce()); err != nil {
		t.Fatal(err)
	}
	var groups []*spanner.MutationGroup
	for range 5 {
		groups = append(groups, &spanner.MutationGroup{Mutations: []*spanner.Mutation{row, row, row}})
	}
	answered := 0
	err = client.BatchWrite(t.Context(), groups).Do(func(r *spannerpb.BatchWriteResponse) error {
		answered += len(r.Indexes)
		return nil
	})
	if err != nil || answered != 5 {
		t.Fatalf("%d groups answered, %v", answered, err)
	}
	if got, want := s.Counters(), (Counters{Requests: 2, Entries: 7, Answered: 7}); got != want {
		t.Errorf("counters %+v, want %+v", got, want)
	}
}

// An answer is never early, however many wait, and not late in the middle: a pacer that let
// them wait one after the other would be, in every round, a machine that stands still is in some.
func TestLatency(t *testing.T) {
	const latency, calls = 20 * time.Millisecond, 200
	_, addr := serve(t, Options{Latency: latency})
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stub := bigtablepb.NewBigtableClient(conn)
	if _, err := stub.MutateRow(t.Context(), &bigtablepb.MutateRowRequest{}); err != nil { // connects
		t.Fatal(err)
	}
	best := time.Duration(math.MaxInt64)
	for range 50 {
		took := make([]time.Duration, calls)
		var all sync.WaitGroup
		for i := range calls {
			all.Go(func() {
				began := time.Now()
				if _, err := stub.MutateRow(context.Background(), &bigtablepb.MutateRowRequest{}); err != nil {
					t.Error(err)
				}
				took[i] = time.Since(began)
			})
		}
		all.Wait()
		slices.Sort(took)
		if took[0] < latency {
			t.Fatalf("an answer after %v, want %v", took[0], latency)
		}
		if best = min(best, took[calls/2]); best <= 10*latency {
			return
		}
	}
	t.Errorf("answers after %v in the middle of the best round, want %v", best, latency)
}

func TestRefusals(t *testing.T) {
	s, addr := serve(t, Options{})
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	call := func(method string, in, out proto.Message) codes.Code {
		return status.Code(conn.Invoke(t.Context(), method, in, out))
	}
	for _, c := range []struct {
		method  string
		in, out proto.Message
		want    codes.Code
	}{
		{"/google.bigtable.v2.Bigtable/MutateRows", &bigtablepb.MutateRowsRequest{TableName: "t"}, &bigtablepb.MutateRowsResponse{}, codes.InvalidArgument},
		{"/google.spanner.v1.Spanner/BatchWrite", &spannerpb.BatchWriteRequest{}, &spannerpb.BatchWriteResponse{}, codes.InvalidArgument},
		{"/google.spanner.v1.Spanner/ExecuteStreamingSql", &spannerpb.ExecuteSqlRequest{Sql: "SELECT 1"}, &spannerpb.PartialResultSet{}, codes.InvalidArgument},
		{"/google.bigtable.v2.Bigtable/CheckAndMutateRow", &bigtablepb.CheckAndMutateRowRequest{}, &bigtablepb.CheckAndMutateRowResponse{}, codes.Unimplemented},
	} {
		if got := call(c.method, c.in, c.out); got != c.want {
			t.Errorf("%s: %v, want %v", c.method, got, c.want)
		}
	}
	if got := s.Counters(); got != (Counters{}) {
		t.Errorf("counters %+v of nothing written", got)
	}
}
