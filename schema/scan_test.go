package schema

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// scanned decodes data both ways. The scanner may leave a text to jsontext; when it does
// not, jsontext has to accept it and make the very same tree.
func scanned(t *testing.T, data []byte) (accepted bool) {
	t.Helper()
	before := bytes.Clone(data)
	var got, want tree
	got.src, want.src = string(data), string(data)
	accepted, _ = got.scan(data)
	err := want.read(data)
	switch {
	case accepted && err != nil:
		t.Fatalf("%q is accepted: %v", data, err)
	case accepted && !reflect.DeepEqual(got.nodes, want.nodes):
		t.Fatalf("%q:\ngot  %+v\nwant %+v", data, got.nodes, want.nodes)
	case !bytes.Equal(data, before):
		t.Fatalf("%q became %q", before, data)
	}
	return accepted
}

// FuzzScan holds the scanner against jsontext: what it accepts jsontext accepts, as the
// same tree. What it does not accept is jsontext's to decide, so nothing else can differ.
func FuzzScan(f *testing.F) {
	for _, row := range testRows(f, "*.txt") {
		f.Add([]byte(row.in))
	}
	for _, s := range scanTexts() {
		f.Add([]byte(s.text))
	}
	f.Fuzz(func(t *testing.T, data []byte) { scanned(t, data) })
}

type scanText struct {
	text string
	yes  bool // the scanner needs no jsontext
}

func scanTexts() []scanText {
	list := []scanText{
		{readingRecord, true}, {benchRecord, true},
		{`{}`, true}, {`[]`, true}, {` [ ] `, true}, {"\t{ \"a\" :\r\n1 , \"b\":[ 1 ,2 ] }\n", true}, {`""`, true}, {`{"":1}`, true},
		{`{"a":1,"b":2,}`, false}, {`{"a":1 "b":2}`, false}, {`{,"a":1}`, false}, {`[1,]`, false}, {`[,1]`, false}, {`[1 2]`, false},
		{`{"a"}`, false}, {`{"a":}`, false}, {`{"a",1}`, false}, {`{a:1}`, false}, {`{1:1}`, false}, {`{"a":1]`, false}, {`[1}`, false},
		{`{"a":1}}`, false}, {`1 2`, false}, {``, false}, {` `, false}, {`[`, false}, {`{`, false}, {`{"a`, false}, {`{"a":`, false}, {`{"a":1`, false},
		{`{"a":1,"a":2}`, false}, {`{"a":1,"b":{"a":2}}`, true}, {`{"a":1,"\u0061":2}`, false}, {`{"\u0061":1}`, false},
		{`true`, true}, {`false`, true}, {`null`, true}, {`tru`, false}, {`truE`, false}, {`nulll`, false}, {`True`, false}, {`NaN`, false},
		{`0`, true}, {`-0`, true}, {`01`, false}, {`-`, false}, {`+1`, false}, {`.5`, false}, {`1.`, false}, {`1.e1`, false}, {`1e`, false}, {`1e+`, false},
		{`-01`, false}, {`00`, false}, {`0x1`, false}, {`1_0`, false}, {`1a`, false}, {`-a`, false}, {`1.0`, true}, {`1.50`, true}, {`1e3`, true}, {`1E-3`, true},
		{`0.0`, true}, {`-0.0`, true}, {`0e0`, true}, {`100e-2`, true}, {`1.5e1`, true}, {`12.5E+0`, true},
		{`999999999999999999`, true}, {`1000000000000000000`, true}, {`9223372036854775807`, true}, {`9223372036854775808`, true},
		{`-9223372036854775808`, true}, {`-9223372036854775809`, true}, {`18446744073709551615`, true}, {`18446744073709551616`, true},
		{`100000000000000000000000000.000001`, true}, {`1e400`, true}, {`1e99999999999999999999`, true},
		{`"\n\"\\\/é\ud83d\ude00"`, true}, {`"\ud83d"`, false}, {`"\ud83d\u0041"`, false}, {`"\x"`, false}, {`"\u12"`, false}, {`"\`, false}, {`"\"`, false},
		{`"` + "é日😀" + `"`, true}, {"\"\xff\"", false}, {"\"\xed\xa0\x80\"", false}, {"\"\xc0\x80\"", false}, {"{\"\xff\":1}", false}, {`{"é":1}`, true},
		{"\"\x00\"", false}, {"\"\x1f\"", false}, {"\"\x7f\"", true}, {"\"a\tb\"", false}, {"\xef\xbb\xbf1", false}, {"\v1", false}, {"[1,\f2]", false}, {"\u00a01", false},
		{strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth), true},
		{strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1), false},
		{strings.Repeat(`{"a":`, MaxDepth) + "1" + strings.Repeat("}", MaxDepth), true},
	}
	// Objects of few and of many members, with and without one that is there twice.
	for _, n := range []int{2, 23, 63, 64, 65, 66, 200} {
		for _, twice := range []int{-1, 0, n / 3, n - 2} {
			var b strings.Builder
			for i := range n {
				name := fmt.Sprintf("m%d", i)
				if i == n-1 && twice >= 0 {
					name = fmt.Sprintf("m%d", twice)
				}
				fmt.Fprintf(&b, `,"%s":%d`, name, i)
			}
			list = append(list, scanText{"{" + b.String()[1:] + "}", twice < 0})
		}
	}
	return list
}

func TestScan(t *testing.T) {
	for _, s := range scanTexts() {
		if got := scanned(t, []byte(s.text)); got != s.yes {
			t.Errorf("%q is accepted: %v", s.text, got)
		}
	}
	// Every byte at every place of the eight that are looked at together.
	for c := range 256 {
		for i := range 9 {
			text := []byte("\"xxxxxxxxxx\"")
			text[i+1] = byte(c)
			if got := scanned(t, text); got != (c >= ' ' && c < 0x80 && c != '"' && c != '\\') {
				t.Errorf("%q is accepted: %v", text, got)
			}
		}
	}
	// Whatever is cut off or changed, the scanner says nothing that jsontext does not say.
	for i := range readingRecord {
		if scanned(t, []byte(readingRecord[:i])) {
			t.Errorf("accepted when cut at %d", i)
		}
		for _, c := range []byte("\"\\{}[]:,0.-e \x00\xff") {
			data := []byte(readingRecord)
			data[i] = c
			scanned(t, data)
		}
	}
	for _, line := range quakes(t) {
		if !scanned(t, line) {
			t.Fatalf("not accepted: %s", line)
		}
	}
}
