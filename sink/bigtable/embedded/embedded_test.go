package embedded

import (
	"bytes"
	"context"
	"log"
	"runtime"
	"strings"
	"testing"
	"time"

	adminpb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

func connect(t *testing.T, s *Server) *grpc.ClientConn {
	t.Helper()
	opts := append(s.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(maxMessage+1), grpc.MaxCallRecvMsgSize(2*maxMessage)))
	conn, err := grpc.NewClient("passthrough:///"+Endpoint, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// Calls that the fake does not have end as Unimplemented, not the process.
func TestMissingCallsDoNotPanic(t *testing.T) {
	s, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	conn := connect(t, s)
	stream, err := btpb.NewBigtableClient(conn).ReadChangeStream(t.Context(), &btpb.ReadChangeStreamRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("ReadChangeStream: %v", err)
	}
	_, err = adminpb.NewBigtableTableAdminClient(conn).GetBackup(t.Context(), &adminpb.GetBackupRequest{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("GetBackup: %v", err)
	}
	if _, err = btpb.NewBigtableClient(conn).PingAndWarm(t.Context(), &btpb.PingAndWarmRequest{}); err != nil {
		t.Errorf("the server is gone: %v", err)
	}
}

// A message above gRPC's default bound of 4 MiB passes both ways.
func TestLargeMessages(t *testing.T) {
	s, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	conn := connect(t, s)
	const table = "projects/p/instances/i/tables/t"
	_, err = adminpb.NewBigtableTableAdminClient(conn).CreateTable(t.Context(), &adminpb.CreateTableRequest{
		Parent: "projects/p/instances/i", TableId: "t",
		Table: &adminpb.Table{ColumnFamilies: map[string]*adminpb.ColumnFamily{"f": {}}}})
	if err != nil {
		t.Fatal(err)
	}
	data := btpb.NewBigtableClient(conn)
	_, err = data.MutateRow(t.Context(), &btpb.MutateRowRequest{TableName: table, RowKey: []byte("k"), Mutations: []*btpb.Mutation{{
		Mutation: &btpb.Mutation_SetCell_{SetCell: &btpb.Mutation_SetCell{FamilyName: "f", TimestampMicros: 1000, Value: make([]byte, 5<<20)}}}}})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := data.ReadRows(t.Context(), &btpb.ReadRowsRequest{TableName: table})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = rows.Recv(); err != nil {
		t.Error(err)
	}
}

// The fake's own lines stay out of the standard log; others pass; closing undoes it.
func TestLogIsFiltered(t *testing.T) {
	var out bytes.Buffer
	was := log.Writer()
	log.SetOutput(&out)
	defer log.SetOutput(was)
	s, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	log.Print("bttest: GC(t) deleted 1 cells")
	log.Print("another line")
	s.Close()
	log.Print("bttest: after the end")
	if got := out.String(); strings.Contains(got, "GC") || !strings.Contains(got, "another line") || !strings.Contains(got, "after the end") {
		t.Errorf("log %q", got)
	}
	if log.Writer() != &out {
		t.Error("the log's writer is not restored")
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 3 {
		s, err := Start()
		if err != nil {
			t.Fatal(err)
		}
		conn := connect(t, s)
		_, err = adminpb.NewBigtableTableAdminClient(conn).CreateTable(context.Background(), &adminpb.CreateTableRequest{Parent: "projects/p/instances/i", TableId: "t"})
		if err != nil {
			t.Fatal(err)
		}
		// Starts the garbage collector.
		_, err = adminpb.NewBigtableTableAdminClient(conn).ModifyColumnFamilies(context.Background(), &adminpb.ModifyColumnFamiliesRequest{Name: "projects/p/instances/i/tables/t"})
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		s.Close()
	}
	for i := 0; runtime.NumGoroutine() > before && i < 3000; i++ {
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines, %d before", n, before)
	}
}
