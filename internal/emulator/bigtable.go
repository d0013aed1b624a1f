package emulator

import (
	"context"
	"os/exec"
	"strconv"
	"testing"

	"cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	"google.golang.org/grpc"
)

// Bigtable runs a Bigtable emulator for t and returns its host:port. Any project and
// instance exists in it.
func Bigtable(t testing.TB) string {
	t.Helper()
	binary, err := sdkFile("platform/bigtable-emulator/cbtemulator")
	if err != nil {
		absent(t, "Bigtable", err)
	}
	return launch(t, bigtableKind(binary)).addr
}

func bigtableKind(binary string) kind {
	return kind{
		name: "Bigtable",
		command: func(port int) *exec.Cmd {
			return exec.Command(binary, "-host=127.0.0.1", "-port="+strconv.Itoa(port))
		},
		probe: func(ctx context.Context, conn *grpc.ClientConn) error {
			_, err := adminpb.NewBigtableTableAdminClient(conn).ListTables(ctx,
				&adminpb.ListTablesRequest{Parent: "projects/probe/instances/probe"}, grpc.WaitForReady(true))
			return err
		},
	}
}
