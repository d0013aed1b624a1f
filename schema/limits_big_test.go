//go:build !race

// The race detector makes these take minutes; they start no goroutine.

package schema

import (
	"fmt"
	"strings"
	"testing"
)

func TestCellOver100MB(t *testing.T) {
	r := compileOne(t, "input: {format: bytes}\nbigtable: {table: t, rowKey: k, set: [{family: m, column: v, value: data, as: bytes}]}")
	data := make([]byte, MaxCell+1)
	rec := jsonRecord("")
	rec.Data = data
	_, err := r.Mapping.Apply(rec)
	wantCode(t, err, TooLarge, "104857600")
	rec.Data = data[:MaxCell]
	if _, err := r.Mapping.Apply(rec); err != nil {
		t.Error(err)
	}
}

func TestValuesOfOnePayload(t *testing.T) {
	// The root and MaxValues-1 more.
	list := strings.Repeat("0,", MaxValues-1)
	var tr tree
	if err := tr.decode([]byte("[" + list[:len(list)-1] + "]")); err != nil {
		t.Error(err)
	}
	err := tr.decode([]byte("[" + list + "0]"))
	if err == nil || err.Code != TooLarge || !strings.Contains(err.Detail, fmt.Sprint(MaxValues)) {
		t.Errorf("got %v", err)
	}
}

func TestValuesOfOneColumn(t *testing.T) {
	r := compileOne(t, `spanner: {table: T, columns: {a: 'data.l.map(x, data.l)'}}`)
	list := strings.TrimSuffix(strings.Repeat(`1,`, 2000), ",")
	_, err := r.Mapping.Apply(jsonRecord(`{"l":[` + list + `]}`))
	wantCode(t, err, TooLarge, "1048576")
}
