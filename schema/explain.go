package schema

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Explain renders what the route's mapping made of r, for a dry run:
//
//	{"route":"…","record":{…},"bigtable":{"table":"…","key":"…","mutations":[…]}}
//	{"route":"…","record":{…},"spanner":{"mutations":[…]}}
//	{"route":"…","record":{…},"skipped":true,"reason":"where"}
//
// Cell values are shown decoded. A row key or a column that is not UTF-8 is shown in
// base64, as keyBase64 and columnBase64.
func (r *Route) Explain(rec *Record, m Mutation) ([]byte, error) {
	w := &writer{}
	w.open('{')
	w.member("route").str(r.Name)
	r.explainRecord(w.member("record"), rec)
	switch {
	case m.Skip != NotSkipped:
		w.member("skipped").raw("true")
		w.member("reason").str(m.Skip.String())
	case m.Bigtable != nil:
		explainRow(w.member("bigtable"), m.Bigtable)
	case m.Spanner != nil:
		explainGroup(w.member("spanner"), m.Spanner)
	default:
		return nil, fmt.Errorf("schema: an empty mutation")
	}
	w.close('}')
	// Names and decoded values are valid JSON by construction; this finds out otherwise.
	if v := jsontext.Value(w.b); !v.IsValid() {
		return nil, fmt.Errorf("schema: a dry run that is not JSON")
	}
	return w.b, nil
}

// String is the reason as a dry run gives it.
func (k Skip) String() string {
	switch k {
	case SkippedWhere:
		return "where"
	case SkippedEmpty:
		return "empty"
	default:
		return "not skipped"
	}
}

func (r *Route) explainRecord(w *writer, rec *Record) {
	w.open('{')
	if rec.ID != "" {
		w.member("id").str(rec.ID)
	}
	if !rec.Published.IsZero() {
		w.member("publishTime").str(rec.Published.UTC().Format(time.RFC3339Nano))
	}
	if rec.OrderingKey != "" {
		w.member("orderingKey").str(rec.OrderingKey)
	}
	if rec.Subscription != "" {
		w.member("subscription").str(rec.Subscription)
	}
	if rec.Attempt != 0 {
		w.member("deliveryAttempt").raw(itoa(rec.Attempt))
	}
	if len(rec.Attributes) > 0 {
		w.member("attributes").open('{')
		for _, name := range sortedKeys(rec.Attributes) {
			w.member(name).str(rec.Attributes[name])
		}
		w.close('}')
	}
	switch document, ok := r.Mapping.document(rec); {
	case ok:
		w.member("data").raw(document)
	case len(rec.Data) == 0:
	case r.Format == "json" && jsontext.Value(rec.Data).IsValid():
		w.member("data").raw(string(rec.Data))
	default:
		w.member("dataBase64").str(base64.StdEncoding.EncodeToString(rec.Data))
	}
	w.close('}')
}

func explainRow(w *writer, m *RowMutation) {
	w.open('{')
	if m.Instance != "" {
		w.member("instance").str(m.Instance)
	}
	w.member("table").str(m.Table)
	w.text("key", m.Key)
	w.member("mutations").open('[')
	for i := range m.Ops {
		explainOp(w.element(), &m.Ops[i])
	}
	w.close(']')
	w.close('}')
}

func explainOp(w *writer, op *Op) {
	w.open('{')
	switch op.Kind {
	case DeleteRow:
		w.member("deleteFromRow").raw("{}")
	case DeleteFamily:
		w.member("deleteFromFamily").open('{')
		w.member("family").str(op.Family)
		w.close('}')
	case DeleteColumn:
		w.member("deleteFromColumn").open('{')
		w.member("family").str(op.Family)
		w.text("column", op.Column)
		w.close('}')
	case SetCell:
		w.member("setCell").open('{')
		w.member("family").str(op.Family)
		w.text("column", op.Column)
		w.member("timestamp").str(time.UnixMicro(op.Micros).UTC().Format(time.RFC3339Nano))
		if v, err := DecodeCell(op.As, op.Value); err == nil {
			w.member("value").raw(string(v))
		} else {
			w.member("valueBase64").str(base64.StdEncoding.EncodeToString(op.Value))
		}
		w.member("as").str(string(op.As))
		w.close('}')
	}
	w.close('}')
}

// DecodeCell shows a stored cell as JSON, by the encoding it was made with. An error
// means that value is none of that encoding's; it names no part of it. An empty value is
// "", whatever the encoding: null: empty makes those.
func DecodeCell(as Encoding, value []byte) (jsontext.Value, error) {
	if len(value) == 0 {
		return jsontext.Value(`""`), nil
	}
	size := map[Encoding]int{AsInt64: 8, AsFloat64: 8, AsInt32: 4, AsFloat32: 4, AsBool: 1}[as]
	if size != 0 && len(value) != size {
		return nil, fmt.Errorf("%d bytes are no %s", len(value), as)
	}
	switch as {
	case AsString:
		if !utf8.Valid(value) {
			return nil, fmt.Errorf("not UTF-8")
		}
		return jsontext.AppendQuote(nil, value)
	case AsText:
		v := jsontext.Value(value)
		if k := v.Kind(); !v.IsValid() || k != '0' && k != 't' && k != 'f' {
			return nil, fmt.Errorf("neither a number nor a bool")
		}
		return v.Clone(), nil
	case AsJSON:
		v := jsontext.Value(value)
		if !v.IsValid() {
			return nil, fmt.Errorf("not JSON")
		}
		return v.Clone(), nil
	case AsBytes:
		return jsontext.AppendQuote(nil, base64.StdEncoding.EncodeToString(value))
	case AsInt64:
		return jsontext.Value(itoa(int(int64(binary.BigEndian.Uint64(value))))), nil
	case AsInt32:
		return jsontext.Value(itoa(int(int32(binary.BigEndian.Uint32(value))))), nil
	case AsFloat64:
		return floatJSON(math.Float64frombits(binary.BigEndian.Uint64(value)), 64), nil
	case AsFloat32:
		return floatJSON(float64(math.Float32frombits(binary.BigEndian.Uint32(value))), 32), nil
	case AsBool:
		switch value[0] {
		case 0:
			return jsontext.Value("false"), nil
		case 0xFF:
			return jsontext.Value("true"), nil
		}
		return nil, fmt.Errorf("neither 0x00 nor 0xFF")
	default:
		return nil, fmt.Errorf("no encoding %q", as)
	}
}

// floatJSON shows what JSON has no number for as text.
func floatJSON(f float64, size int) jsontext.Value {
	switch {
	case math.IsNaN(f):
		return jsontext.Value(`"NaN"`)
	case math.IsInf(f, 1):
		return jsontext.Value(`"Infinity"`)
	case math.IsInf(f, -1):
		return jsontext.Value(`"-Infinity"`)
	}
	return appendJSONFloat(nil, f, size)
}

// EncodingOf is the encoding that the route's mapping gives a cell, to show it decoded;
// false when no set item or all makes such a cell, or items of different encodings may.
func (r *Route) EncodingOf(family, column string) (Encoding, bool) {
	m := r.Mapping.bigtable
	if m == nil {
		return "", false
	}
	var found Encoding
	for i := range m.set {
		c := &m.set[i]
		if !c.family.may(family) {
			continue
		}
		if c.static {
			if c.qual == column && c.family.template == nil {
				return c.as, true
			}
			if c.qual != column {
				continue
			}
		} else if !c.column.may(column) {
			continue
		}
		if found != "" && found != c.as {
			return "", false
		}
		found = c.as
	}
	if found == "" && m.all != nil && m.all.family.may(family) {
		// A string is stored as it is, everything else as JSON, which is text as well.
		found = AsString
	}
	return found, found != ""
}

func (n *name) may(family string) bool {
	if n.template == nil {
		return n.fixed == family
	}
	return n.template.may(family)
}

// may tells whether the template could make text: its literal parts stand in it in their
// order, with something between them.
func (t *template) may(text string) bool {
	open := false // an expression stands before the next literal
	for i := range t.parts {
		p := &t.parts[i]
		if p.expr != nil {
			if text == "" {
				return false
			}
			if open = true; i == len(t.parts)-1 {
				return true
			}
			continue
		}
		at := 0
		if open {
			if at = indexFrom(text, p.literal, 1); i == len(t.parts)-1 {
				at = len(text) - len(p.literal)
			}
			if at < 1 {
				return false
			}
		}
		if len(text) < at+len(p.literal) || text[at:at+len(p.literal)] != p.literal {
			return false
		}
		text, open = text[at+len(p.literal):], false
	}
	return text == ""
}
