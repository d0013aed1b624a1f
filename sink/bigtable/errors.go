package bigtable

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pushsink/pushsink/schema"
)

// callError is a failed call in words that are safe to answer and to log. The service's
// own error stays reachable for errors.As; its text may quote a row.
type callError struct {
	text  string
	cause error
}

func (e *callError) Error() string { return e.text }
func (e *callError) Unwrap() error { return e.cause }

// refused is a failure with a code of the closed list. It is found as a *schema.Error and
// as what caused it.
type refused struct {
	code  schema.Code
	cause *callError
}

func rejection(code schema.Code, cause error) error {
	ce, ok := cause.(*callError)
	if !ok {
		ce = &callError{text: cause.Error(), cause: cause}
	}
	return &refused{code: code, cause: ce}
}

func (e *refused) Error() string { return string(e.code) + ": " + e.cause.text }

func (e *refused) Unwrap() []error {
	return []error{&schema.Error{Code: e.code, Detail: e.cause.text}, e.cause.cause}
}

const (
	// maxDetail cuts the service's words.
	maxDetail = 300
	// needle is how much of a value or key is looked for: texts may cut what they quote.
	needle = 16
)

// quoteFree is the failure's code with the service's words, or without them where they
// quote anything of the entries: keys, qualifiers and values are never repeated, nor are
// names that come from records.
func (r *request) quoteFree(f failure, entries []int) string {
	if f.text == "" || slices.ContainsFunc(entries, func(i int) bool { return r.entries[i].namedByRecord() }) {
		return f.code.String()
	}
	text := f.text
	clean := true
	q := quotes(text, needle)
	r.held(entries, func(data []byte) {
		clean = clean && !q.in(data, func(string) {})
	})
	if !clean {
		return f.code.String()
	}
	return f.code.String() + ": " + cutDetail(text)
}

// cutDetail shortens the service's words.
func cutDetail(text string) string {
	if len(text) > maxDetail {
		text = text[:maxDetail] + "..."
	}
	return strings.ToValidUTF8(text, "")
}

// held calls f with every key, qualifier and value of the entries.
func (r *request) held(entries []int, f func(data []byte)) {
	for _, i := range entries {
		p := r.entries[i]
		fields(p.wire[:p.muts], func(_ protowire.Number, key []byte) { f(key) })
		p.each(func(_, qualifier, value []byte) {
			f(qualifier)
			f(value)
		})
	}
}

// quoted looks for data in a text, in each form it may have there: as it is, escaped, in
// hexadecimal, in base64.
type quoted struct {
	text  string
	limit int // data is looked for by its first bytes, as many as this
	// The longest run of letters, digits, + and /: nothing encoded that is longer is there.
	run int
}

func quotes(text string, limit int) quoted {
	q := quoted{text: text, limit: limit}
	n := 0
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '+', c == '/', c == '-', c == '_':
			n++
			q.run = max(q.run, n)
		default:
			n = 0
		}
	}
	return q
}

// in calls found with each form of data that is in the text, and reports whether any is.
func (q quoted) in(data []byte, found func(form string)) (any bool) {
	if len(data) == 0 || len(q.text) == 0 {
		return false
	}
	cut := len(data) > q.limit
	data = data[:min(len(data), q.limit)]
	look := func(form string) {
		if strings.Contains(q.text, form) {
			any = true
			found(form)
		}
	}
	if len(data) <= len(q.text) {
		look(string(data))
		if !plain(data) {
			for _, form := range []string{strconv.Quote(string(data)), strconv.QuoteToASCII(string(data))} {
				look(form[1 : len(form)-1])
			}
		}
	}
	if hex.EncodedLen(len(data)) <= q.run {
		look(hex.EncodeToString(data))
	}
	if base64.RawStdEncoding.EncodedLen(len(data)) <= q.run {
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			form := e.EncodeToString(data)
			if cut {
				form = form[:len(form)-1] // depends on the byte that is cut off
			}
			look(form)
		}
	}
	return any
}

// plain reports whether quoting leaves data as it is.
func plain(data []byte) bool {
	for _, c := range data {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
