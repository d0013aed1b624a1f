package handlers

import (
	"strings"
	"testing"

	"github.com/pushsink/pushsink/schema"
)

func TestDryrun(t *testing.T) {
	f := newFixture(t, func(f *fixture) { f.route.OnReject = schema.Drop })
	dry := func(body string, header ...string) answer {
		t.Helper()
		return f.do(f.request("POST", "/v1/routes/r/dryrun", body, header...))
	}
	a := dry(wrap(`{"id":"a"}`, "m7"))
	f.want("push", a, 200, "")
	for _, want := range []string{`"route":"r"`, `"id":"m7"`, `"publishTime":"2026-01-02T03:04:05Z"`, `"table":"t"`, `"key":"a"`, `"setCell"`} {
		if !strings.Contains(a.body, want) {
			t.Errorf("%s is missing: %s", want, a.body)
		}
	}
	for name, body := range map[string]string{"record": `{"id":"a"}`, "record with a message": `{"id":"a","message":"x"}`, "with spaces around": " {\"id\":\"a\"}\r\n"} {
		if a := dry(body); a.status != 200 || !strings.Contains(a.body, `"key":"a"`) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if a := dry(gz(`{"id":"a"}`), "Content-Encoding", "gzip"); a.status != 200 {
		t.Errorf("gzip: %d %s", a.status, a.body)
	}
	if a := dry(`{"do":"skip"}`); a.status != 200 || !strings.Contains(a.body, `"skipped":true`) {
		t.Errorf("skip: %d %s", a.status, a.body)
	}
	f.want("mapping", dry(`{"do":"mismatch"}`), 422, schema.TypeMismatch)
	f.want("no JSON", dry(`{"id"`), 400, schema.BadJSON)
	f.want("two records", dry(`{"id":"a"} {"id":"b"}`), 400, schema.BadJSON)
	f.want("an array is one record", dry(`[{"id":"a"},{"id":"b"}]`), 422, schema.TypeMismatch)
	f.want("nothing", dry(" \n"), 400, schema.BadJSON)
	f.want("bad envelope", dry(`{"message":{"data":"a*b"}}`), 400, schema.BadEnvelope)
	f.want("encoding", dry(`{}`, "Content-Encoding", "br"), 415, schema.UnsupportedContentType)
	f.want("broken", dry(`{"do":"broken"}`), 500, schema.Internal)
	f.want("panic", dry(`{"do":"panic"}`), 500, schema.Internal)
	if n := len(f.writer.entries()); n != 0 || len(f.counts.records) != 0 {
		t.Errorf("a dry run wrote %d entries and counted %v", n, f.counts.records)
	}
}
