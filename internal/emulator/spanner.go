package emulator

import (
	"context"
	"fmt"
	"os/exec"
	"sync"
	"testing"

	database "cloud.google.com/go/spanner/admin/database/apiv1"
	"cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	instances "cloud.google.com/go/spanner/admin/instance/apiv1"
	"cloud.google.com/go/spanner/admin/instance/apiv1/instancepb"
	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
)

// SpannerEmulator is a running Spanner emulator. The installed version
// (1.5.28) answers BatchWrite with UNIMPLEMENTED and runs one read-write transaction at a
// time.
type SpannerEmulator struct {
	// Addr is host:port, as SPANNER_EMULATOR_HOST wants it.
	Addr string

	databases *database.DatabaseAdminClient
	instances *instances.InstanceAdminClient
	data      sppb.SpannerClient

	mu       sync.Mutex // guards what follows
	made     int        // databases
	instance string     // where the next one goes, while it has room
}

// maxDatabases is how many databases the emulator lets an instance have.
const maxDatabases = 100

// Spanner runs a Spanner emulator for t. It starts emulator_main itself: a gateway that
// is killed leaves it running.
func Spanner(t testing.TB) *SpannerEmulator {
	t.Helper()
	binary, err := sdkFile("bin/cloud_spanner_emulator/emulator_main")
	if err != nil {
		absent(t, "Spanner", err)
	}
	e := launch(t, spannerKind(binary))
	admin, err := instances.NewInstanceAdminClient(t.Context(), option.WithGRPCConn(e.conn))
	if err != nil {
		t.Fatal(err)
	}
	databases, err := database.NewDatabaseAdminClient(t.Context(), option.WithGRPCConn(e.conn))
	if err != nil {
		t.Fatal(err)
	}
	return &SpannerEmulator{Addr: e.addr, databases: databases, instances: admin, data: sppb.NewSpannerClient(e.conn)}
}

func spannerKind(binary string) kind {
	return kind{
		name: "Spanner",
		command: func(port int) *exec.Cmd {
			return exec.Command(binary, fmt.Sprintf("--host_port=127.0.0.1:%d", port))
		},
		probe: func(ctx context.Context, conn *grpc.ClientConn) error {
			_, err := instancepb.NewInstanceAdminClient(conn).ListInstanceConfigs(ctx,
				&instancepb.ListInstanceConfigsRequest{Parent: "projects/probe"}, grpc.WaitForReady(true))
			return err
		},
	}
}

// Database makes a new database with ddl in GoogleSQL and returns its path.
func (s *SpannerEmulator) Database(t testing.TB, ddl ...string) string {
	t.Helper()
	parent, n := s.place(t)
	id := fmt.Sprintf("db%d", n)
	return s.create(t, parent, id, &databasepb.CreateDatabaseRequest{
		CreateStatement: "CREATE DATABASE `" + id + "`",
		DatabaseDialect: databasepb.DatabaseDialect_GOOGLE_STANDARD_SQL,
	}, ddl)
}

// PostgreSQL is Database in the PostgreSQL dialect.
func (s *SpannerEmulator) PostgreSQL(t testing.TB, ddl ...string) string {
	t.Helper()
	parent, n := s.place(t)
	id := fmt.Sprintf("pg%d", n)
	return s.create(t, parent, id, &databasepb.CreateDatabaseRequest{
		CreateStatement: `CREATE DATABASE "` + id + `"`,
		DatabaseDialect: databasepb.DatabaseDialect_POSTGRESQL,
	}, ddl)
}

// place is an instance with room for one more database, and the database's number.
func (s *SpannerEmulator) place(t testing.TB) (instance string, n int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made%maxDatabases == 0 {
		id := "test"
		if n := s.made / maxDatabases; n > 0 {
			id = fmt.Sprintf("test%d", n)
		}
		op, err := s.instances.CreateInstance(t.Context(), &instancepb.CreateInstanceRequest{
			Parent: "projects/test", InstanceId: id,
			Instance: &instancepb.Instance{Config: "projects/test/instanceConfigs/emulator-config", DisplayName: id, NodeCount: 1},
		})
		if err == nil {
			_, err = op.Wait(t.Context())
		}
		if err != nil {
			t.Fatalf("create instance %s: %v", id, err)
		}
		s.instance = "projects/test/instances/" + id
	}
	s.made++
	return s.instance, s.made
}

func (s *SpannerEmulator) create(t testing.TB, parent, id string, request *databasepb.CreateDatabaseRequest, ddl []string) string {
	t.Helper()
	path := parent + "/databases/" + id
	request.Parent = parent
	op, err := s.databases.CreateDatabase(t.Context(), request)
	if err == nil {
		_, err = op.Wait(t.Context())
	}
	if err != nil {
		t.Fatalf("create %s: %v", path, err)
	}
	if len(ddl) == 0 {
		return path
	}
	// Separate from the creation: PostgreSQL takes no statements there.
	update, err := s.databases.UpdateDatabaseDdl(t.Context(), &databasepb.UpdateDatabaseDdlRequest{Database: path, Statements: ddl})
	if err == nil {
		err = update.Wait(t.Context())
	}
	if err != nil {
		t.Fatalf("ddl of %s: %v", path, err)
	}
	return path
}
