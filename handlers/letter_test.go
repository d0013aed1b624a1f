package handlers

import (
	"context"
	"errors"
	"testing"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// slowLetters goes on publishing after its caller was told that it failed, as a Pub/Sub
// client does.
type slowLetters struct{ data []byte }

func (s *slowLetters) Publish(_ context.Context, _ *schema.Route, r *schema.Record, _ sink.Dest, _ *schema.Error) error {
	s.data = r.Data
	return errors.New("the request ended before the publish was confirmed")
}

// Nobody else may get the memory of a record whose letter may still be under way: it would
// show as a dead letter with another record's data.
func TestALetterStillUnderWayKeepsItsData(t *testing.T) {
	l := &slowLetters{}
	f := newFixture(t, func(f *fixture) { f.route.OnReject = schema.DeadLetter; f.config.DeadLetters = l })
	const payload = `{"id":"a","do":"mismatch"}`
	if a := f.push(wrap(payload, "m")); a.status != 503 || string(l.data) != payload {
		t.Errorf("push: %d, the letter's data is now %q", a.status, l.data)
	}
	for media, body := range map[string]string{"application/json": "[" + payload + "]", "application/x-ndjson": payload + "\n"} {
		r := f.request("POST", "/v1/routes/r/records", body, "Content-Type", media)
		if a := f.do(r); a.status != 503 || string(l.data) != payload {
			t.Errorf("%s: %d, the letter's data is now %q", media, a.status, l.data)
		}
	}
}
