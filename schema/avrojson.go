package schema

import (
	"math"
	"strconv"

	"github.com/hamba/avro/v2"
)

// avroJSON reads Avro's JSON encoding (Avro 1.12, JSON Encoding) off a tree of the payload's
// JSON. It is as strict as the binary encoding is by nature: every field is there and no
// other, in any order. What the two encodings share, they share from the schema on, so a
// message gives the same tree in both.
type avroJSON struct {
	src *tree
	b   *builder
}

func (d *avroJSON) fail(i int, want string) *Error {
	return undecodable(d.b.pointer(), "Avro of the schema: %s, not %s", d.src.nodes[i].kind, want)
}

func (d *avroJSON) value(t *avroType, i int) *Error {
	n := &d.src.nodes[i]
	switch t.kind {
	case avro.Null:
		if n.kind != null {
			return d.fail(i, "null")
		}
		return d.b.null()
	case avro.Boolean:
		if n.kind != boolean {
			return d.fail(i, "a boolean")
		}
		return d.b.boolean(n.bits == 1)
	case avro.Int, avro.Long:
		if n.kind != integer || t.kind == avro.Int && int64(n.bits) != int64(int32(n.bits)) {
			return d.fail(i, "of type "+string(t.kind))
		}
		return t.integer(d.b, int64(n.bits))
	case avro.Float, avro.Double:
		return d.float(t, i)
	case avro.String:
		if n.kind != text {
			return d.fail(i, "a string")
		}
		return d.b.string(d.src.str(i))
	case avro.Bytes:
		p, err := d.octets(i)
		if err != nil {
			return err
		}
		return t.octets(d.b, p)
	case avro.Fixed:
		p, err := d.octets(i)
		if err != nil {
			return err
		}
		if len(p) != t.size {
			return undecodable(d.b.pointer(), "Avro of the schema: a fixed of %d bytes, not of %d", len(p), t.size)
		}
		return t.octets(d.b, p)
	case avro.Enum:
		if n.kind != text {
			return d.fail(i, "a symbol")
		}
		name := d.src.str(i)
		for _, s := range t.symbols {
			if s == name {
				return d.b.plain(s)
			}
		}
		return undecodable(d.b.pointer(), "Avro of the schema: an enum has no such symbol")
	case avro.Union:
		return d.union(t, i)
	case avro.Record:
		return d.record(t, i)
	default: // array, map
		return d.items(t, i)
	}
}

// float reads a number, or the names of those that JSON has no number for.
func (d *avroJSON) float(t *avroType, i int) *Error {
	n := &d.src.nodes[i]
	size := 64
	if t.kind == avro.Float {
		size = 32
	}
	switch n.kind {
	case integer, unsigned, literal:
		f, err := strconv.ParseFloat(d.src.raw(i), size)
		if err != nil {
			return undecodable(d.b.pointer(), "Avro of the schema: a number is outside %s", t.kind)
		}
		return d.b.double(f)
	case text:
		switch d.src.str(i) {
		case "NaN":
			return d.b.double(math.NaN())
		case "Infinity":
			return d.b.double(math.Inf(1))
		case "-Infinity":
			return d.b.double(math.Inf(-1))
		}
	}
	return d.fail(i, "of type "+string(t.kind))
}

// octets reads bytes: a string whose characters 0 to 255 are the bytes.
func (d *avroJSON) octets(i int) ([]byte, *Error) {
	if d.src.nodes[i].kind != text {
		return nil, d.fail(i, "bytes")
	}
	s := d.src.str(i)
	p := make([]byte, 0, len(s))
	for _, c := range s {
		if c > 0xff {
			return nil, undecodable(d.b.pointer(), "Avro of the schema: bytes have a character above U+00FF")
		}
		p = append(p, byte(c))
	}
	return p, nil
}

// union reads null, or {"branch": value}. A value beside null alone is never taken without
// its branch: the encoding has one spelling.
func (d *avroJSON) union(t *avroType, i int) *Error {
	n := &d.src.nodes[i]
	if n.kind == null {
		for _, branch := range t.branches {
			if branch.kind == avro.Null {
				return d.b.null()
			}
		}
		return undecodable(d.b.pointer(), "Avro of the schema: a union has no null")
	}
	first, count := n.children()
	if n.kind != object || count != 1 {
		return undecodable(d.b.pointer(), `Avro of the schema: a union wants null or {"TYPE": VALUE}`)
	}
	name := d.src.nameOf(first)
	for _, branch := range t.branches {
		if branch.name != name || branch.kind == avro.Null {
			continue
		}
		if !t.tagged {
			return d.value(branch, first)
		}
		if err := d.b.begin(object); err != nil {
			return err
		}
		d.b.name(branch.name)
		if err := d.value(branch, first); err != nil {
			return err
		}
		return d.b.end()
	}
	return undecodable(d.b.pointer(), "Avro of the schema: a union has no branch %s", quoteShort(name))
}

func (d *avroJSON) record(t *avroType, i int) *Error {
	n := &d.src.nodes[i]
	if n.kind != object {
		return d.fail(i, "a record")
	}
	if err := d.b.begin(object); err != nil {
		return err
	}
	for k := range t.fields {
		f := &t.fields[k]
		j := d.src.member(i, f.name)
		if j < 0 {
			return undecodable(d.b.parent(), "Avro of the schema: field %s is missing", f.name)
		}
		d.b.name(f.name)
		if err := d.value(f.typ, j); err != nil {
			return err
		}
	}
	if _, count := n.children(); count != len(t.fields) {
		return undecodable(d.b.parent(), "Avro of the schema: there is a field that the record does not have")
	}
	return d.b.end()
}

func (d *avroJSON) items(t *avroType, i int) *Error {
	n := &d.src.nodes[i]
	kind, want := list, "an array"
	if t.kind == avro.Map {
		kind, want = object, "a map"
	}
	if n.kind != kind {
		return d.fail(i, want)
	}
	if err := d.b.begin(kind); err != nil {
		return err
	}
	first, count := n.children()
	for j := first; j < first+count; j++ {
		if kind == object {
			if err := d.b.key(d.src.nameOf(j)); err != nil {
				return err
			}
		}
		if err := d.value(t.items, j); err != nil {
			return err
		}
	}
	return d.b.end()
}
