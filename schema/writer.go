package schema

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// writer builds JSON in the order it is told.
type writer struct{ b []byte }

func (w *writer) open(c byte)  { w.b = append(w.b, c) }
func (w *writer) close(c byte) { w.b = append(w.b, c) }
func (w *writer) raw(s string) { w.b = append(w.b, s...) }

func (w *writer) str(s string) {
	// What is not UTF-8 was shown in base64 before.
	w.b, _ = jsontext.AppendQuote(w.b, strings.ToValidUTF8(s, "\uFFFD"))
}

func (w *writer) element() *writer {
	if n := len(w.b); n > 0 && w.b[n-1] != '{' && w.b[n-1] != '[' {
		w.b = append(w.b, ',')
	}
	return w
}

func (w *writer) member(name string) *writer {
	w.element().str(name)
	w.b = append(w.b, ':')
	return w
}

// text writes a member that may hold any bytes.
func (w *writer) text(name, s string) {
	if utf8.ValidString(s) {
		w.member(name).str(s)
		return
	}
	w.member(name + "Base64").str(base64.StdEncoding.EncodeToString([]byte(s)))
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// indexFrom is strings.Index from byte offset from on; -1 = not there.
func indexFrom(s, sub string, from int) int {
	if from > len(s) {
		return -1
	}
	if i := strings.Index(s[from:], sub); i >= 0 {
		return from + i
	}
	return -1
}
