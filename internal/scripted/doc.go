// Package scripted is a Bigtable service in this process, driven by the real client over
// loopback, that does what a test or a benchmark tells it to: be slow, fail a call or an
// entry, apply half a call and then break, forget an entry, stall, reset connections,
// show a created table late. Rows are kept in memory and read by the test directly, so
// that "acknowledged" can be compared with "stored" the moment an answer arrives.
//
// It keeps the service's rules that the emulator lacks: an entry is applied whole or not
// at all, row keys and mutation counts are bounded, an unknown family is NOT_FOUND, and
// (Options.Strict) one bad entry fails the whole call and writes nothing. It reads no
// rows over the wire.
package scripted
