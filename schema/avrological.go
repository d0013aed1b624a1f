package schema

import (
	"encoding/binary"
	"encoding/hex"
	"math/big"
	"strings"
	"time"

	"github.com/hamba/avro/v2"
)

// What logical types mean, for both encodings.

const (
	secondsPerDay = 24 * 60 * 60
	localTime     = "2006-01-02T15:04:05.999999999" // no zone: it is no instant
	timeOfDay     = "15:04:05.999999999"
)

// integer appends an int or a long.
func (t *avroType) integer(b *builder, i int64) *Error {
	switch t.logical {
	case avro.Date:
		return b.date(time.Unix(i*secondsPerDay, 0))
	case avro.TimeMillis:
		return b.timeOfDay(i, int64(time.Millisecond))
	case avro.TimeMicros:
		return b.timeOfDay(i, int64(time.Microsecond))
	case avro.TimestampMillis:
		return b.instant(time.UnixMilli(i))
	case avro.TimestampMicros:
		return b.instant(time.UnixMicro(i))
	case timestampNanos:
		return b.instant(time.Unix(0, i))
	case avro.LocalTimestampMillis:
		return b.local(time.UnixMilli(i))
	case avro.LocalTimestampMicros:
		return b.local(time.UnixMicro(i))
	case localTimestampNanos:
		return b.local(time.Unix(0, i))
	default:
		return b.integer(i)
	}
}

// octets appends bytes or a fixed.
func (t *avroType) octets(b *builder, p []byte) *Error {
	switch {
	case t.logical == avro.Decimal:
		return t.decimal(b, p)
	case t.logical == avro.UUID:
		var u [36]byte
		hex.Encode(u[:8], p[:4])
		u[8] = '-'
		hex.Encode(u[9:13], p[4:6])
		u[13] = '-'
		hex.Encode(u[14:18], p[6:8])
		u[18] = '-'
		hex.Encode(u[19:23], p[8:10])
		u[23] = '-'
		hex.Encode(u[24:], p[10:])
		return b.plain(string(u[:]))
	case t.logical == avro.Duration:
		if err := b.begin(object); err != nil {
			return err
		}
		for i, name := range [...]string{"months", "days", "millis"} {
			b.name(name)
			if err := b.integer(int64(binary.LittleEndian.Uint32(p[4*i:]))); err != nil {
				return err
			}
		}
		return b.end()
	default:
		return b.octets(p)
	}
}

// decimal appends a big-endian two's complement integer with the type's scale as the number
// that it is, all its digits kept. What does not fit the precision is refused: it bounds what
// the conversion costs.
func (t *avroType) decimal(b *builder, p []byte) *Error {
	bad := func(why string) *Error {
		return undecodable(b.pointer(), "Avro of the schema: a decimal %s", why)
	}
	if len(p) == 0 {
		return bad("has no bytes")
	}
	negative := p[0] >= 0x80
	fill := byte(0)
	if negative {
		fill = 0xff
	}
	for len(p) > 1 && p[0] == fill && (p[1] >= 0x80) == negative {
		p = p[1:]
	}
	// Five bits are more than a digit and a half.
	if len(p) > 1+t.digits/2 {
		return bad("has more digits than its precision")
	}
	n := new(big.Int).SetBytes(p)
	if negative {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(p))))
	}
	digits := n.Append(nil, 10)
	sign := ""
	if negative {
		sign, digits = "-", digits[1:]
	}
	if len(digits) > t.digits {
		return bad("has more digits than its precision")
	}
	if missing := t.scale + 1 - len(digits); missing > 0 {
		digits = append([]byte(strings.Repeat("0", missing)), digits...)
	}
	lit := append([]byte(sign), digits[:len(digits)-t.scale]...)
	if t.scale > 0 {
		lit = append(append(lit, '.'), digits[len(digits)-t.scale:]...)
	}
	return b.number(lit)
}

// date appends YYYY-MM-DD.
func (b *builder) date(t time.Time) *Error {
	t = t.UTC()
	if err := b.inYears(t); err != nil {
		return err
	}
	return b.plain(t.Format(time.DateOnly))
}

// local appends a date and a time of day without a zone.
func (b *builder) local(t time.Time) *Error {
	t = t.UTC()
	if err := b.inYears(t); err != nil {
		return err
	}
	return b.plain(t.Format(localTime))
}

// timeOfDay appends n units after midnight.
func (b *builder) timeOfDay(n, unit int64) *Error {
	if n < 0 || n >= secondsPerDay*int64(time.Second)/unit {
		return &Error{Code: TimestampOutOfRange, Pointer: b.pointer(), Detail: "payload has a time of day outside the day"}
	}
	return b.plain(time.Unix(0, n*unit).UTC().Format(timeOfDay))
}
