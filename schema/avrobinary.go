package schema

import (
	"encoding/binary"
	"math"

	"github.com/hamba/avro/v2"
)

// avroBinary reads Avro's binary encoding. It walks the schema over the bytes and builds
// the tree on the way. The library's decoder into untyped values is not used: it makes
// floats of decimals, holds everything twice, and takes the counts of blocks at their word.
// Every step here either takes bytes or makes a value, and both are bounded.
type avroBinary struct {
	data []byte
	at   int
	b    *builder
}

func (d *avroBinary) fail(format string, args ...any) *Error {
	return undecodable(d.b.pointer(), "Avro of the schema: "+format+" at byte %d", append(args, d.at)...)
}

// take gives the next n bytes.
func (d *avroBinary) take(n int) ([]byte, *Error) {
	if n > len(d.data)-d.at {
		return nil, d.fail("it ends early")
	}
	d.at += n
	return d.data[d.at-n : d.at], nil
}

// long reads a variable-length zig-zag integer of at most 64 bits.
func (d *avroBinary) long() (int64, *Error) {
	var u uint64
	for shift := 0; ; shift += 7 {
		if d.at == len(d.data) {
			return 0, d.fail("it ends early")
		}
		c := d.data[d.at]
		if shift == 63 && c > 1 {
			return 0, d.fail("an integer has more than 64 bits")
		}
		d.at++
		u |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), nil
		}
	}
}

// int reads one of at most 32 bits, in no more bytes than they need at most: other readers
// refuse what is longer, though it be zeros.
func (d *avroBinary) int() (int64, *Error) {
	start := d.at
	i, err := d.long()
	switch {
	case err != nil:
		return 0, err
	case d.at-start > binary.MaxVarintLen32:
		return 0, d.fail("an int has more than %d bytes", binary.MaxVarintLen32)
	case i != int64(int32(i)):
		return 0, d.fail("an int has more than 32 bits")
	}
	return i, nil
}

// octets reads bytes with their length before them.
func (d *avroBinary) octets() ([]byte, *Error) {
	n, err := d.long()
	if err != nil {
		return nil, err
	}
	if n < 0 {
		return nil, d.fail("a length is negative")
	}
	if n > int64(len(d.data)-d.at) {
		return nil, d.fail("it ends early")
	}
	return d.take(int(n))
}

func (d *avroBinary) value(t *avroType) *Error {
	switch t.kind {
	case avro.Null:
		return d.b.null()
	case avro.Boolean:
		p, err := d.take(1)
		if err != nil {
			return err
		}
		if p[0] > 1 {
			return d.fail("a boolean is neither 0 nor 1")
		}
		return d.b.boolean(p[0] == 1)
	case avro.Int:
		i, err := d.int()
		if err != nil {
			return err
		}
		return t.integer(d.b, i)
	case avro.Long:
		i, err := d.long()
		if err != nil {
			return err
		}
		return t.integer(d.b, i)
	case avro.Float:
		p, err := d.take(4)
		if err != nil {
			return err
		}
		return d.b.double(float64(math.Float32frombits(binary.LittleEndian.Uint32(p))))
	case avro.Double:
		p, err := d.take(8)
		if err != nil {
			return err
		}
		return d.b.double(math.Float64frombits(binary.LittleEndian.Uint64(p)))
	case avro.String:
		p, err := d.octets()
		if err != nil {
			return err
		}
		return d.b.string(alias(p))
	case avro.Bytes:
		p, err := d.octets()
		if err != nil {
			return err
		}
		return t.octets(d.b, p)
	case avro.Fixed:
		p, err := d.take(t.size)
		if err != nil {
			return err
		}
		return t.octets(d.b, p)
	case avro.Enum:
		i, err := d.int()
		if err != nil {
			return err
		}
		if i < 0 || i >= int64(len(t.symbols)) {
			return d.fail("an enum has no such symbol")
		}
		return d.b.plain(t.symbols[i])
	case avro.Union:
		return d.union(t)
	case avro.Record:
		return d.record(t)
	default: // array, map
		return d.blocks(t)
	}
}

func (d *avroBinary) record(t *avroType) *Error {
	if err := d.b.begin(object); err != nil {
		return err
	}
	for i := range t.fields {
		d.b.name(t.fields[i].name)
		if err := d.value(t.fields[i].typ); err != nil {
			return err
		}
	}
	return d.b.end()
}

func (d *avroBinary) union(t *avroType) *Error {
	i, err := d.long()
	if err != nil {
		return err
	}
	if i < 0 || i >= int64(len(t.branches)) {
		return d.fail("a union has no such branch")
	}
	branch := t.branches[i]
	if !t.tagged || branch.kind == avro.Null {
		return d.value(branch)
	}
	if err := d.b.begin(object); err != nil {
		return err
	}
	d.b.name(branch.name)
	if err := d.value(branch); err != nil {
		return err
	}
	return d.b.end()
}

// blocks reads an array or a map: blocks of items, each with their count before it. A
// negative count is followed by the block's size in bytes.
func (d *avroBinary) blocks(t *avroType) *Error {
	kind := list
	if t.kind == avro.Map {
		kind = object
	}
	if err := d.b.begin(kind); err != nil {
		return err
	}
	for {
		count, err := d.long()
		if err != nil {
			return err
		}
		if count == 0 {
			break
		}
		end := -1
		if count < 0 {
			size, err := d.long()
			if err != nil {
				return err
			}
			if count == math.MinInt64 || size < 0 || size > int64(len(d.data)-d.at) {
				return d.fail("a block has an impossible size")
			}
			count, end = -count, d.at+int(size)
		}
		for ; count > 0; count-- {
			if kind == object {
				key, err := d.octets()
				if err != nil {
					return err
				}
				if err := d.b.key(alias(key)); err != nil {
					return err
				}
			}
			if err := d.value(t.items); err != nil {
				return err
			}
		}
		if end >= 0 && d.at != end {
			return d.fail("a block is not as long as it says")
		}
	}
	if kind == object {
		if err := d.b.unique(); err != nil {
			return err
		}
	}
	return d.b.end()
}
