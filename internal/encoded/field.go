package encoded

import "google.golang.org/protobuf/encoding/protowire"

// Framed is the size of a length-delimited field with n bytes inside, and a number below 16.
func Framed(n int) int { return 1 + protowire.SizeBytes(n) }

// AppendFrame begins a length-delimited field with n bytes inside; field is below 16.
func AppendFrame(b []byte, field protowire.Number, n int) []byte {
	tag := byte(field)<<3 | byte(protowire.BytesType)
	if n < 0x80 {
		return append(b, tag, byte(n))
	}
	return protowire.AppendVarint(append(b, tag), uint64(n))
}

// AppendField appends a length-delimited field; its number is below 16.
func AppendField[T string | []byte](b []byte, field protowire.Number, s T) []byte {
	return append(AppendFrame(b, field, len(s)), s...)
}
