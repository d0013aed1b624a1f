package handlers

import (
	"errors"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pushsink/pushsink/schema"
)

// maxDepth is the nesting at which the JSON reader gives up by itself. The bound of a record
// (64) is the decoder's.
const maxDepth = 10_000

// syntaxError says why and where text is not strict JSON, without quoting it: the reader's own
// message names members and characters.
func syntaxError(text []byte, err error) *schema.Error {
	var s *jsontext.SyntacticError
	if !errors.As(err, &s) {
		if len(text) == 0 {
			return &schema.Error{Code: schema.BadJSON, Detail: "the body is empty"}
		}
		return &schema.Error{Code: schema.BadJSON, Detail: "the JSON ends early, at byte " + strconv.Itoa(len(text))}
	}
	at := " at byte " + strconv.FormatInt(s.ByteOffset, 10)
	rest := text[min(s.ByteOffset, int64(len(text))):]
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &schema.Error{Code: schema.BadJSON, Detail: "duplicate member name" + at}
	case errors.Is(err, io.ErrUnexpectedEOF) || len(rest) == 0:
		return &schema.Error{Code: schema.BadJSON, Detail: "the JSON ends early," + at}
	case depth(text[:s.ByteOffset]) >= maxDepth:
		return &schema.Error{Code: schema.TooDeep, Detail: "nested deeper than " + strconv.Itoa(maxDepth) + " levels" + at}
	case !validStart(rest):
		return &schema.Error{Code: schema.BadJSON, Detail: "invalid UTF-8" + at}
	case len(rest) > 1 && rest[0] == '\\' && rest[1] == 'u':
		return &schema.Error{Code: schema.BadJSON, Detail: "escape that is no character (lone surrogate)" + at}
	}
	return &schema.Error{Code: schema.BadJSON, Detail: "not strict JSON" + at}
}

// validStart reports that text begins with a character: a byte order mark is one, though none of JSON's.
func validStart(text []byte) bool {
	r, size := utf8.DecodeRune(text)
	return r != utf8.RuneError || size > 1
}

// depth is the number of arrays and objects open at the end of text.
func depth(text []byte) int {
	n, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			n++
		case c == ']' || c == '}':
			n--
		}
	}
	return n
}
