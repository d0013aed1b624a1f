package handlers

import (
	"errors"
	"strings"
	"testing"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
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

// A dry run refuses what a push would be refused for, with its status.
func TestDryrunRefusesAsAPush(t *testing.T) {
	f := newFixture(t, func(f *fixture) {
		f.config.Limits.MaxRecordBytes = 100
		f.route.Target = pickyTarget{}
	})
	long := `{"id":"a","x":"` + strings.Repeat("x", 100) + `"}`
	for name, c := range map[string]struct {
		body   string
		header []string
		status int
		code   schema.Code
	}{
		"a value that its column cannot hold": {wrap(`{"id":"misfit"}`, "m"), nil, 422, schema.TypeMismatch},
		"a sink that cannot say":              {wrap(`{"id":"unknown"}`, "m"), nil, 503, schema.Unavailable},
		"a fault of ours":                     {wrap(`{"id":"fault"}`, "m"), nil, 500, schema.Internal},
		"a large payload":                     {wrap(long, "m"), nil, 422, schema.TooLarge},
		"a large entry":                       {wrap(`{"id":"large"}`, "m"), nil, 422, schema.TooLarge},
		"a payload of another type": {`{}`, []string{"Ce-Id", "1", "Ce-Type", "t", "Ce-Source", "s", "Ce-Specversion", "1.0",
			"Content-Type", "application/protobuf"}, 422, schema.UnsupportedContentType},
	} {
		a := f.do(f.request("POST", "/v1/routes/r/dryrun", c.body, c.header...))
		f.want(name, a, c.status, c.code)
		if (a.header.Get("Retry-After") != "") != (c.status == 503) {
			t.Errorf("%s: Retry-After %q", name, a.header.Get("Retry-After"))
		}
		if c.status == 422 && name != "a large entry" { // which the writer refuses, and f's is none
			f.want(name+", pushed", f.push(c.body, c.header...), c.status, c.code)
		}
	}
	// Where the sink counts tables, it is not asked.
	f.route.Bigtable = &schema.BigtableTarget{}
	f.want("a templated table", f.do(f.request("POST", "/v1/routes/r/dryrun", wrap(`{"id":"misfit"}`, "m"))), 200, "")
}

// pickyTarget refuses by the row's key.
type pickyTarget struct{ fakeTarget }

func (p pickyTarget) Encode(r *schema.Record, m *schema.Mutation) (sink.Entry, error) {
	e, err := p.fakeTarget.Encode(r, m)
	switch m.Bigtable.Key {
	case "misfit":
		err = &schema.Error{Code: schema.TypeMismatch, Detail: "int, want a string"}
	case "unknown":
		err = &schema.Error{Code: schema.Unavailable, Detail: "not known yet"}
	case "fault":
		err = errors.New("a value")
	case "large":
		e.Bytes = 101
	}
	return e, err
}
