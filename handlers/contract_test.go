package handlers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/go-chi/chi/v5"
	"github.com/go-json-experiment/json"

	"github.com/pushsink/pushsink"
)

// contract is openapi.yaml, loaded and valid.
type contract struct {
	doc    *openapi3.T
	router routers.Router
}

var loadContract = sync.OnceValues(func() (*contract, error) {
	text := func(body io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
		b, err := io.ReadAll(body)
		return string(b), err
	}
	openapi3filter.RegisterBodyDecoder("application/x-ndjson", text)
	for _, media := range []string{"application/yaml", "text/html", "text/javascript", "text/css", "text/plain", "image/svg+xml", "font/woff2"} {
		openapi3filter.RegisterBodyDecoder(media, text)
	}
	doc, err := openapi3.NewLoader().LoadFromData(pushsink.OpenAPI)
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(context.Background()); err != nil {
		return nil, err
	}
	doc.Servers = nil // any address is the server's
	router, err := legacy.NewRouter(doc)
	return &contract{doc, router}, err
})

// heldTo is h, and fails the test on every response of it that openapi.yaml does not
// describe: an undocumented status, header or member. All handlers of this package's tests
// stand behind it, whatever client asks them.
func heldTo(t testing.TB, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := &http.Request{Method: r.Method, URL: r.URL, Host: r.Host, Header: r.Header.Clone()}
		a := &answered{ResponseWriter: w}
		h.ServeHTTP(a, r) // a panic is an answer broken off, which has no form
		spec, err := loadContract()
		if err != nil {
			t.Errorf("openapi.yaml: %v", err)
			return
		}
		if err := spec.breach(asked, a.status, w.Header(), a.body.Bytes()); err != nil {
			t.Errorf("%s %s answered %d %.1000s\n%v", r.Method, r.URL.Path, a.status, a.body.Bytes(), err)
		}
	})
}

// answered keeps what is answered.
type answered struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (a *answered) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answered) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	a.body.Write(p)
	return a.ResponseWriter.Write(p)
}

func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// breach says what of an answer is not as the document says; nil = nothing.
func (c *contract) breach(r *http.Request, status int, header http.Header, body []byte) error {
	if wants := status == 429 || status == 503 && header.Get("Content-Type") == problemType; wants && header.Get("Retry-After") == "" {
		return errors.New("no Retry-After")
	}
	if status == 401 && header.Get("WWW-Authenticate") == "" {
		return errors.New("no WWW-Authenticate")
	}
	if status == 405 && header.Get("Allow") == "" {
		return errors.New("no Allow")
	}
	route, params, err := c.router.FindRoute(r)
	if err != nil {
		// Not in the document: only a refusal may come.
		switch status {
		case 401, 403, 404, 405, 500, 503:
			return c.matches("Problem", body)
		}
		return fmt.Errorf("not in the document: %w", err)
	}
	in := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 status,
		Header:                 header,
		Options:                &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	in.SetBodyBytes(body)
	if err := openapi3filter.ValidateResponse(context.Background(), in); err != nil {
		return err
	}
	if status == 204 && len(body) > 0 {
		return errors.New("204 with a body")
	}
	if header.Get("Content-Type") == "application/x-ndjson" {
		for line := range strings.Lines(string(body)) {
			if err := c.matches("Row", []byte(line)); err != nil {
				return err
			}
		}
	}
	return nil
}

// matches holds JSON text to a schema of the document.
func (c *contract) matches(schema string, text []byte) error {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return fmt.Errorf("not JSON: %w: %q", err, text)
	}
	if err := c.doc.Components.Schemas[schema].Value.VisitJSON(v, openapi3.VisitAsResponse()); err != nil {
		return fmt.Errorf("%s is no %s: %w", text, schema, err)
	}
	return nil
}

// The check that all the others rest on can fail.
func TestContractIsBreached(t *testing.T) {
	spec, err := loadContract()
	if err != nil {
		t.Fatal(err)
	}
	const problem = `{"type":"about:blank","title":"x","status":503}`
	const batch = `{"received":0,"written":0,"skipped":0,"dropped":0,"deadLettered":0,"failed":0,"retryable":0,"truncated":false,"errors":[],"errorsTruncated":false}`
	for _, c := range []struct {
		name, method, path string
		status             int
		header             string // Name: value; Name: value
		body               string
		good               bool
	}{
		{"a push", "POST", "/v1/routes/r/push", 204, "", "", true},
		{"a batch", "POST", "/v1/routes/r/records", 200, "Content-Type: application/json; Pushsink-Time: 2026-01-02T03:04:05Z", batch, true},
		{"an undocumented status", "POST", "/v1/routes/r/push", 200, "Content-Type: application/json", batch, false},
		{"a status of another endpoint", "POST", "/v1/routes/r/push", 504, "Content-Type: application/problem+json; Retry-After: 1", problem, false},
		{"204 with a body", "POST", "/v1/routes/r/push", 204, "", "x", false},
		{"an unknown member", "POST", "/v1/routes/r/records", 200, "Content-Type: application/json", strings.Replace(batch, "{", `{"extra":1,`, 1), false},
		{"a member left out", "POST", "/v1/routes/r/records", 200, "Content-Type: application/json", strings.Replace(batch, `"failed":0,`, "", 1), false},
		{"another media type", "POST", "/v1/routes/r/records", 200, "Content-Type: text/plain", batch, false},
		{"an unknown code", "POST", "/v1/routes/r/push", 503, "Content-Type: application/problem+json; Retry-After: 1", strings.Replace(problem, "{", `{"code":"new",`, 1), false},
		{"503", "POST", "/v1/routes/r/push", 503, "Content-Type: application/problem+json; Retry-After: 1", problem, true},
		{"503 without Retry-After", "POST", "/v1/routes/r/push", 503, "Content-Type: application/problem+json", problem, false},
		{"401 without WWW-Authenticate", "POST", "/v1/routes/r/push", 401, "Content-Type: application/problem+json", strings.Replace(problem, "503", "401", 1), false},
		{"405 without Allow", "PUT", "/v1/routes/r/push", 405, "Content-Type: application/problem+json", strings.Replace(problem, "503", "405", 1), false},
		{"a path that is not there", "POST", "/nope", 404, "Content-Type: application/problem+json", strings.Replace(problem, "503", "404", 1), true},
		{"a path that is not documented", "POST", "/nope", 204, "", "", false},
		{"a row", "GET", "/v1/routes/r/rows", 200, "Content-Type: application/x-ndjson", `{"key":"k","cells":[]}` + "\n", true},
		{"a line that is no row", "GET", "/v1/routes/r/rows", 200, "Content-Type: application/x-ndjson", `{"key":"k"}` + "\n", false},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		header := http.Header{}
		for pair := range strings.SplitSeq(c.header, "; ") {
			if name, value, ok := strings.Cut(pair, ": "); ok {
				header.Set(name, value)
			}
		}
		if err := spec.breach(r, c.status, header, []byte(c.body)); (err == nil) != c.good {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// RUN-01: the server's paths are the document's, every one, and none ends in z. Prometheus
// asks /metrics, on a port of its own where one is configured: it is no part of the contract.
func TestRUN01PathsOfServerAndContractAgree(t *testing.T) {
	spec, err := loadContract()
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, offline, withConsole, func(f *fixture) { f.config.Metrics = http.NotFoundHandler() })
	served := map[string]bool{}
	err = chi.Walk(f.api.router(NoAuth), func(method, path string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		served[method+" "+path] = true
		if strings.HasSuffix(strings.TrimSuffix(path, "/"), "z") {
			t.Errorf("RUN-01 %s is the front end's", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !served["GET /metrics"] {
		t.Error("not all of the server's paths were seen")
	}
	delete(served, "GET /metrics")
	documented := map[string]bool{}
	for path, item := range spec.doc.Paths.Map() {
		for method := range item.Operations() {
			documented[method+" "+path] = true
		}
	}
	if !maps.Equal(served, documented) {
		t.Errorf("RUN-01 served\n%q\ndocumented\n%q", slices.Sorted(maps.Keys(served)), slices.Sorted(maps.Keys(documented)))
	}
}

func TestContractIsValidAndComplete(t *testing.T) {
	spec, err := loadContract()
	if err != nil {
		t.Fatal(err)
	}
	if err := spec.doc.Validate(t.Context(), openapi3.EnableExamplesValidation()); err != nil {
		t.Errorf("an example does not match its schema: %v", err)
	}
	for path, item := range spec.doc.Paths.Map() {
		// RUN-01: the platform's front end answers paths that end in z itself.
		if strings.HasSuffix(path, "z") {
			t.Errorf("RUN-01 path %s ends in z", path)
		}
		for method, op := range item.Operations() {
			open := op.Security != nil && len(*op.Security) == 0
			if closed := op.Responses.Value("401") != nil && op.Responses.Value("403") != nil; open == closed {
				t.Errorf("%s %s: security %v, yet 401 and 403 are there: %v", method, path, op.Security, closed)
			}
			for status, resp := range op.Responses.Map() {
				at := method + " " + path + " " + status
				for name, statuses := range map[string]string{"Retry-After": "429 503 504", "WWW-Authenticate": "401", "Allow": "405"} {
					health := resp.Value.Content.Get("application/json") != nil // a probe's 503 names no time
					if wants := strings.Contains(statuses, status) && !health; wants != (resp.Value.Headers[name] != nil) {
						t.Errorf("%s: header %s is wanted: %v", at, name, wants)
					}
				}
				for media, content := range resp.Value.Content {
					if content.Example == nil && len(content.Examples) == 0 {
						t.Errorf("%s %s has no example", at, media)
					}
				}
			}
		}
	}
}

// Every example is what its place says, and every code has one.
func TestContractExamples(t *testing.T) {
	spec, err := loadContract()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	checked := 0
	check := func(at, status string, content *openapi3.MediaType) {
		values := map[string]any{}
		if content.Example != nil {
			values["example"] = content.Example
		}
		for name, example := range content.Examples {
			values[name] = example.Value.Value
			if example.Value.Summary == "" {
				t.Errorf("%s %s has no summary", at, name)
			}
		}
		for name, v := range values {
			checked++
			if err := content.Schema.Value.VisitJSON(v); err != nil {
				t.Errorf("%s %s: %v", at, name, err)
			}
			problem, _ := v.(map[string]any)
			if code, ok := problem["code"].(string); ok {
				shown[code] = true
			}
			if status == "" || problem["title"] == nil {
				continue
			}
			n, err := strconv.Atoi(status)
			if err != nil || problem["status"] != float64(n) || problem["title"] != http.StatusText(n) || problem["detail"] == nil {
				t.Errorf("%s %s: status %v, title %v, detail %v", at, name, problem["status"], problem["title"], problem["detail"])
			}
			// The counts are those of the records.
			if received, ok := problem["received"].(float64); ok {
				sum := 0.0
				for _, member := range []string{"written", "skipped", "dropped", "deadLettered", "failed"} {
					sum += problem[member].(float64)
				}
				if failed := problem["failed"].(float64); received != sum || int(failed) != len(problem["errors"].([]any)) {
					t.Errorf("%s %s: %v received, %v in all, %v failed, %d errors", at, name, received, sum, failed, len(problem["errors"].([]any)))
				}
			}
		}
	}
	for path, item := range spec.doc.Paths.Map() {
		for method, op := range item.Operations() {
			if op.RequestBody != nil {
				for media, content := range op.RequestBody.Value.Content {
					check(method+" "+path+" "+media, "", content)
				}
			}
			for status, resp := range op.Responses.Map() {
				for media, content := range resp.Value.Content {
					check(method+" "+path+" "+status+" "+media, status, content)
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d examples were looked at", checked)
	}
	var listed []string
	for _, v := range spec.doc.Components.Schemas["Code"].Value.Enum {
		listed = append(listed, v.(string))
		if !shown[v.(string)] {
			t.Errorf("code %s has no example", v)
		}
	}
	if want := codes(t); !slices.Equal(slices.Sorted(slices.Values(listed)), want) {
		t.Errorf("the document's codes are\n%v, the program's\n%v", listed, want)
	}
}

// codes are the constants of schema.Code, from its source.
func codes(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "schema", "error.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Code" {
			for _, v := range spec.Values {
				code, err := strconv.Unquote(v.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, code)
			}
		}
		return true
	})
	slices.Sort(list)
	return list
}
