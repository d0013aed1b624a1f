package handlers

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
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
	openapi3filter.RegisterBodyDecoder("application/yaml", text)
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

// checked is a transport that fails the test on every response that openapi.yaml does not
// describe: an undocumented status, header or member.
type checked struct {
	t    testing.TB
	base http.RoundTripper
}

func (c checked) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.base.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	c.check(r, resp, body)
	return resp, err
}

func (c checked) check(r *http.Request, resp *http.Response, body []byte) {
	c.t.Helper()
	spec, err := loadContract()
	if err != nil {
		c.t.Errorf("openapi.yaml: %v", err)
		return
	}
	if resp.StatusCode == http.StatusRequestHeaderFieldsTooLarge {
		return // net/http's own answer, which the document's description tells
	}
	retry := resp.Header.Get("Retry-After")
	if wants := resp.StatusCode == 429 || resp.StatusCode == 503 && resp.Header.Get("Content-Type") == problemType; wants && retry == "" {
		c.t.Errorf("%s %s: %d without Retry-After", r.Method, r.URL.Path, resp.StatusCode)
	}
	plain := r.Clone(context.Background())
	plain.Body = nil
	route, params, err := spec.router.FindRoute(plain)
	if err != nil {
		// Not in the document: only a refusal may come.
		switch resp.StatusCode {
		case 401, 403, 404, 405, 500:
		default:
			c.t.Errorf("%s %s is not in openapi.yaml (%v) and answered %d", r.Method, r.URL.Path, err, resp.StatusCode)
		}
		if resp.StatusCode == 405 && resp.Header.Get("Allow") == "" {
			c.t.Errorf("%s %s: 405 without Allow", r.Method, r.URL.Path)
		}
		c.matches("Problem", body)
		return
	}
	in := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: plain, PathParams: params, Route: route},
		Status:                 resp.StatusCode,
		Header:                 resp.Header,
		Options:                &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	in.SetBodyBytes(body)
	if err := openapi3filter.ValidateResponse(context.Background(), in); err != nil {
		c.t.Errorf("%s %s: %d %s\nnot as openapi.yaml says: %v", r.Method, r.URL.Path, resp.StatusCode, body, err)
	}
	if resp.Header.Get("Content-Type") == "application/x-ndjson" {
		for line := range strings.Lines(string(body)) {
			c.matches("Row", []byte(line))
		}
	}
}

// matches checks JSON text against a schema of the document.
func (c checked) matches(schema string, text []byte) {
	c.t.Helper()
	spec, err := loadContract()
	if err != nil {
		c.t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		c.t.Errorf("not JSON: %v: %q", err, text)
		return
	}
	if err := spec.doc.Components.Schemas[schema].Value.VisitJSON(v, openapi3.VisitAsResponse()); err != nil {
		c.t.Errorf("%s is no %s: %v", text, schema, err)
	}
}

func TestContractIsValidAndComplete(t *testing.T) {
	spec, err := loadContract()
	if err != nil {
		t.Fatal(err)
	}
	if err := spec.doc.Validate(context.Background(), openapi3.EnableExamplesValidation()); err != nil {
		t.Errorf("an example does not match its schema: %v", err)
	}
	var codes []string
	for _, v := range spec.doc.Components.Schemas["Code"].Value.Enum {
		codes = append(codes, v.(string))
	}
	text := string(pushsink.OpenAPI)
	for _, c := range codes {
		if !strings.Contains(text, "code: "+c+"}") && !strings.Contains(text, "code: "+c+",") {
			t.Errorf("code %s has no example", c)
		}
	}
	for path, item := range spec.doc.Paths.Map() {
		// RUN-01: the platform's front end answers paths that end in z itself.
		if strings.HasSuffix(path, "z") {
			t.Errorf("RUN-01 path %s ends in z", path)
		}
		for method, op := range item.Operations() {
			for status, resp := range op.Responses.Map() {
				if status == "204" {
					continue
				}
				for media, content := range resp.Value.Content {
					if content.Example == nil && len(content.Examples) == 0 {
						t.Errorf("%s %s %s %s has no example", method, path, status, media)
					}
				}
			}
		}
	}
}
