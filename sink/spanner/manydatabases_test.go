package spanner

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/pushsink/pushsink/internal/emulator"
	"github.com/pushsink/pushsink/sink"
)

// commitLog is what the service answered OK, seen on the wire below the sink: database and
// id of each mutation.
type commitLog struct {
	mu sync.Mutex
	ok map[[2]string]bool
}

func (l *commitLog) watch(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, cc, opts...)
	if err != nil || method != sppb.Spanner_Commit_FullMethodName {
		return err
	}
	// The mutations are bytes that the request's type does not know: as the service reads it.
	wire, err := proto.Marshal(req.(proto.Message))
	if err != nil {
		return err
	}
	var read sppb.CommitRequest
	if err := proto.Unmarshal(wire, &read); err != nil {
		return err
	}
	database, _, _ := strings.Cut(read.Session, "/sessions/")
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range read.Mutations {
		l.ok[[2]string{database, idOf(m)}] = true
	}
	return nil
}

// EMU-03: with many databases under load the emulator may answer OK and lose the write. So
// the rows are read back, and one that is missing is held against the product only if no
// commit with it was answered OK. What is acknowledged has to be among those always, which
// no fault of the emulator can hide.
func TestEMU03ManyDatabasesAtOnce(t *testing.T) {
	databases, rows := 300, 3
	if testing.Short() {
		databases = 50
	}
	e := emulator.Spanner(t)
	paths := make([]string, databases)
	var file strings.Builder
	file.WriteString("routes:\n")
	for i := range paths {
		paths[i] = e.Database(t, "CREATE TABLE T (Id STRING(36)) PRIMARY KEY (Id)")
		fmt.Fprintf(&file, "  r%d: {spanner: {database: %s, table: T, columns: {Id: data.id}}}\n", i, paths[i])
	}
	log := &commitLog{ok: make(map[[2]string]bool)}
	h := live(t, e, paths[0], file.String(), func(c *Config) {
		useCommit(c)
		c.PoolSize = 1
		c.DialOptions = append(c.DialOptions, grpc.WithChainUnaryInterceptor(log.watch))
	})
	known := describeSchema(GoogleSQL, "T: Id STRING(36) key")
	for _, d := range h.sink.databases {
		d.schema.known.Store(known) // reading it so often is not what is tested
	}
	h.opts.MaxActiveInstances = databases
	w := h.writer()

	id := func(i, row int) string { return fmt.Sprintf("%d-%d", i, row) }
	var all sync.WaitGroup
	for i := range paths {
		for row := range rows {
			entry := h.entry(fmt.Sprint("r", i), `{"id":"`+id(i, row)+`"}`)
			all.Go(func() {
				for {
					o := w.Write(t.Context(), []sink.Entry{entry})[0]
					switch o.Kind {
					case sink.Applied:
						return
					case sink.Transient, sink.Undecided: // the redelivery
					default:
						t.Errorf("%s: %v %v", id(i, row), o.Kind, o.Err)
						return
					}
					if t.Context().Err() != nil {
						return
					}
				}
			})
		}
	}
	all.Wait()

	lost := 0
	for i, path := range paths {
		stored := make(map[string]bool)
		for _, row := range e.Query(t, path, "SELECT Id FROM T") {
			stored[row[0].(string)] = true
		}
		for row := range rows {
			name := id(i, row)
			switch {
			case !log.ok[[2]string{path, name}]:
				t.Errorf("%s: acknowledged, and no commit with it was answered OK", name)
			case !stored[name]:
				lost++
				t.Logf("%s: the emulator answered OK and does not have it", name)
			}
			delete(stored, name)
		}
		if len(stored) > 0 {
			t.Errorf("%s holds rows of others: %v", path, stored)
		}
	}
	t.Logf("%d rows in %d databases, %d lost by the emulator", databases*rows, databases, lost)
}
