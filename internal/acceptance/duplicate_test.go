package acceptance

import (
	"net/http"
	"testing"
	"time"

	"github.com/pushsink/pushsink/internal/emulator"
)

// TestACK04OneMessageDeliveredFiveTimesAtOnce: one row, one version.
func TestACK04OneMessageDeliveredFiveTimesAtOnce(t *testing.T) {
	bt := emulator.Bigtable(t)
	db := openStore(t, bt)
	db.create(t, "json", "f")
	s := startServer(t, serverBinary(t), bt, jsonRoutes, nil)
	client := newClient(t)
	body := message{ID: "9", Data: []byte(`{"id":"one"}`), Published: published}.body(t)
	answers := make([]answer, 5)
	inParallel(5, 5, func(i int) { answers[i] = push(t.Context(), client, s.URL, "json", body) })
	for i, a := range answers {
		if a.Status != http.StatusNoContent {
			t.Errorf("delivery %d: %v", i, a)
		}
	}
	compareRows(t, db.rows(t, "json"), map[string]map[string][]cell{
		"one": {"f:id": {{published.Truncate(time.Millisecond).UnixMicro(), "one"}}},
	})
}
