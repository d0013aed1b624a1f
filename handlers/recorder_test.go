package handlers

import (
	"io"
	"net/http"
	"net/http/httptest"
)

// newServerRequest is a request as the server gives it to a handler.
func newServerRequest(method, path string, body io.ReadCloser) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, nil)
	r.Method = method
	r.Body = body
	return r
}

// recorder is a ResponseRecorder that takes read and write deadlines.
type recorder struct{ *httptest.ResponseRecorder }

func newRecorder() *recorder { return &recorder{httptest.NewRecorder()} }
