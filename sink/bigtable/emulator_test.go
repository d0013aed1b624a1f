package bigtable

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushsink/pushsink/internal/emulator"
	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

func TestMain(m *testing.M) {
	emulator.LoopbackOnly()
	m.Run()
}

// The whole of the sink against the emulator of the Cloud CLI: the table is made by the
// first record, families are added, a family nobody declares is fatal for its route
// alone, and what was written is read back, above gRPC's default bound of 4 MiB too.
func TestOnTheRealEmulator(t *testing.T) {
	cfg := testConfig(nil)
	cfg.Endpoint, cfg.PoolSize = emulator.Bigtable(t), 2
	b := newBench(t, cfg,
		routeOf("r", func(b *schema.BigtableTarget) {
			b.Create = true
			b.Families = map[string]*schema.GCRule{"f": {Union: []*schema.GCRule{{MaxVersions: 2}, {MaxAge: 24000 * time.Hour}}}, "g": nil}
		}),
		routeOf("EMU-04", func(b *schema.BigtableTarget) { b.Used = []string{"f", "nofam"} }))
	for deadline := time.Now().Add(3 * time.Minute); ; { // a Check has 15 s, the emulator may stand still
		p := b.Check(t.Context())
		if len(p) == 0 || len(p) == 1 && p[0].Route == "EMU-04" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("problems %v", p)
		}
	}
	p := newPipeline(b, patient)
	large := strings.Repeat("v", 6<<20)
	outs := p.send(3*time.Minute, p.entry(0, row("a")), p.entry(0, row("b", set("g", "q", large))),
		p.entry(1, row("c", set("nofam", "q", "v"))), p.entry(1, row("d")))
	if got := kinds(outs); got != "applied applied fatal applied" {
		// The bad one may have been in front, which closes its route for a while.
		if got != "applied applied fatal fatal" {
			t.Fatalf("%s: %v", got, outs)
		}
	}
	if outs[2].Scope != sink.ScopeRoute || !strings.Contains(outs[2].Err.Error(), `"nofam"`) {
		t.Errorf("%v", outs[2].Err)
	}
	got := b.cells("t")
	want := []string{"a/f:q@1700000000000000=v", "b/g:q@1700000000000000=" + large}
	if len(got) < 2 || !slices.Equal(got[:2], want) {
		t.Errorf("%d cells, not the two", len(got))
	}
}
