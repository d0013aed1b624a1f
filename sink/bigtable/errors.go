package bigtable

import (
	"encoding/base64"
	"encoding/hex"
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
// quote anything of the entries: keys, qualifiers and values are never repeated.
func (r *request) quoteFree(f failure, entries []int) string {
	if f.text == "" {
		return f.code.String()
	}
	text := f.text
	clean := true
	r.quotable(entries, needle, func(s string) bool {
		clean = !strings.Contains(text, s)
		return clean
	})
	if !clean {
		return f.code.String()
	}
	if len(text) > maxDetail {
		text = strings.ToValidUTF8(text[:maxDetail], "") + "..."
	}
	return f.code.String() + ": " + strings.ToValidUTF8(text, "")
}

// quotable calls f with everything of the entries that a text might quote, at most its
// first limit bytes, in each form it might have there, until f returns false.
func (r *request) quotable(entries []int, limit int, f func(string) bool) {
	on := true
	forms := func(b []byte) {
		if len(b) == 0 || !on {
			return
		}
		short := string(b[:min(len(b), limit)])
		quoted := strconv.Quote(short)
		quoted = quoted[1 : len(quoted)-1]
		ascii := strconv.QuoteToASCII(short)
		ascii = ascii[1 : len(ascii)-1]
		encoded := base64.StdEncoding.EncodeToString([]byte(short))
		// The last quantum depends on what follows where the value was cut.
		encoded = strings.TrimRight(encoded, "=")
		if len(b) > limit {
			encoded = encoded[:len(encoded)-1]
		}
		for _, s := range []string{short, quoted, ascii, encoded, hex.EncodeToString([]byte(short))} {
			if on = on && f(s); !on {
				return
			}
		}
	}
	for _, i := range entries {
		if !on {
			return
		}
		p := r.entries[i]
		fields(p.wire[:p.muts], func(_ protowire.Number, key []byte) { forms(key) })
		p.each(func(_, qualifier, value []byte) {
			forms(qualifier)
			forms(value)
		})
	}
}
