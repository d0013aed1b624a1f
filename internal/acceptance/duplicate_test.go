package acceptance

import (
	"fmt"
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

// TestACK04SpannerUpsertDeliveredFiveTimesAtOnce: one row, whichever way it is written.
func TestACK04SpannerUpsertDeliveredFiveTimesAtOnce(t *testing.T) {
	e := emulator.Spanner(t)
	for _, method := range spannerMethods {
		t.Run(method, func(t *testing.T) {
			database := e.Database(t, `CREATE TABLE Readings (Id STRING(20) NOT NULL, Temp FLOAT64, SeenAt TIMESTAMP) PRIMARY KEY (Id)`)
			s := startSpanner(t, e, database, `
routes:
  readings:
    spanner:
      table: Readings
      columns: {Id: data.id, Temp: data.temp, SeenAt: message.publishTime}
`, map[string]string{"PUSHSINK_SPANNER_WRITE_METHOD": method})
			client := newClient(t)
			body := message{ID: "9", Data: []byte(`{"id":"one","temp":21.5}`), Published: published}.body(t)
			answers := make([]answer, 5)
			inParallel(5, 5, func(i int) { answers[i] = push(t.Context(), client, s.URL, "readings", body) })
			for i, a := range answers {
				if a.Status != http.StatusNoContent {
					t.Errorf("delivery %d: %v", i, a)
				}
			}
			rows := e.Query(t, database, "SELECT Id, Temp, SeenAt FROM Readings")
			if len(rows) != 1 || fmt.Sprint(rows[0][:2]) != "[one 21.5]" || fmt.Sprint(rows[0][2]) != published.Format(time.RFC3339Nano) {
				t.Errorf("rows %v, want one", rows)
			}
		})
	}
}
