package schema

import (
	"errors"
	"strings"
)

// template is text with expressions in braces: what names and keys are made of.
type template struct {
	text  string
	parts []part
}

// part is literal text, or an expression.
type part struct {
	literal string
	expr    evaluator // nil = literal
	source  string
}

// static is the text of a template without expressions.
func (t *template) static() (string, bool) {
	switch {
	case len(t.parts) == 0:
		return "", true
	case len(t.parts) == 1 && t.parts[0].expr == nil:
		return t.parts[0].literal, true
	}
	return "", false
}

// piece is a part of a template's text: literal, or the expression between two braces,
// which begins at byte offset at.
type piece struct {
	text string
	expr bool
	at   int
}

// splitTemplate cuts text at its braces. {{ and }} stand for a brace each. A brace inside
// an expression counts, one inside a string of the expression does not.
func splitTemplate(text string) (pieces []piece, errAt int, problem string) {
	var lit strings.Builder
	flush := func() {
		if lit.Len() > 0 {
			pieces = append(pieces, piece{text: lit.String()})
			lit.Reset()
		}
	}
	for i := 0; i < len(text); {
		switch {
		case strings.HasPrefix(text[i:], "{{"), strings.HasPrefix(text[i:], "}}"):
			lit.WriteByte(text[i])
			i += 2
		case text[i] == '}':
			return nil, i, "a } without its {: write }} for a brace"
		case text[i] == '{':
			end := endOfExpression(text, i+1)
			if end < 0 {
				return nil, i, "a { without its }: write {{ for a brace"
			}
			if strings.TrimSpace(text[i+1:end]) == "" {
				return nil, i, "an expression is wanted between the braces"
			}
			flush()
			pieces = append(pieces, piece{text: text[i+1 : end], expr: true, at: i + 1})
			i = end + 1
		default:
			lit.WriteByte(text[i])
			i++
		}
	}
	flush()
	return pieces, 0, ""
}

// endOfExpression is the index of the brace that ends the expression at i, or -1.
func endOfExpression(text string, i int) int {
	depth := 0
	for i < len(text) {
		switch c := text[i]; c {
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return i
			}
			depth--
		case '"', '\'':
			i = endOfString(text, i)
			continue
		}
		i++
	}
	return -1
}

// endOfString is the index behind the string literal at i.
func endOfString(text string, i int) int {
	quote := text[i : i+1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(text[i:], triple) {
		quote = triple
	}
	raw := endsInAny(text[:i], "rR") || endsInAny(text[:i], "bB") && endsInAny(text[:i-1], "rR")
	for i += len(quote); i < len(text); i++ {
		if text[i] == '\\' && !raw {
			i++
			continue
		}
		if strings.HasPrefix(text[i:], quote) {
			return i + len(quote)
		}
	}
	return len(text)
}

func endsInAny(s, set string) bool {
	return s != "" && strings.IndexByte(set, s[len(s)-1]) >= 0
}

// append adds what the template makes of a record to dst.
func (t *template) append(s *state, dst []byte) ([]byte, error) {
	for i := range t.parts {
		p := &t.parts[i]
		if p.expr == nil {
			dst = append(dst, p.literal...)
			continue
		}
		v, err := p.expr.eval(s)
		if err != nil {
			return dst, keyPart(err)
		}
		if dst, err = p.segment(s, dst, v); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (p *part) segment(s *state, dst []byte, v value) ([]byte, error) {
	start, ok := len(dst), true
	switch v.kind {
	case absent, null:
		return dst, p.fail(s, KeyPartMissing, "is "+v.kind.String())
	case text, octets:
		dst = append(dst, v.text...)
	case integer, unsigned:
		dst = appendInt(dst, v)
	case boolean:
		if v.bits == 1 {
			return append(dst, "true"...), nil
		}
		return append(dst, "false"...), nil
	case literal:
		if dst, ok = appendPlain(dst, v.text); !ok {
			return dst, p.fail(s, TooLarge, "has more than 4096 digits in plain decimal")
		}
	case double:
		if dst, ok = appendDouble(dst, v.float()); !ok {
			return dst, p.fail(s, TypeMismatch, "is not a finite number")
		}
	case instant:
		return dst, p.fail(s, TypeMismatch, "is a timestamp: use date() or reverseMillis()")
	default:
		return dst, p.fail(s, TypeMismatch, "is "+v.kind.String()+", not text, a number or a bool")
	}
	if len(dst) == start {
		return dst, p.fail(s, KeyPartMissing, "is empty")
	}
	return dst, nil
}

func (p *part) fail(s *state, code Code, why string) *Error {
	e := &Error{Code: code, Detail: p.source + " " + why}
	if path, ok := p.expr.(*path); ok {
		e.Pointer = path.pointer(s)
	}
	return e
}

// keyPart is how a template fails on something absent or null.
func keyPart(err error) error {
	var e *Error
	if errors.As(err, &e) && e.Code == MissingField {
		return &Error{Code: KeyPartMissing, Detail: e.Detail, Pointer: e.Pointer}
	}
	return err
}
