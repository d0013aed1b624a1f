package spanner

import (
	"encoding/json"
	"reflect"
	"strings"
)

// sameJSON reports whether two JSON texts say the same: the service spaces and orders
// members its own way. Numbers are compared exactly.
func sameJSON(a, b string) bool {
	x, okA := decodeJSON(a)
	y, okB := decodeJSON(b)
	return okA && okB && reflect.DeepEqual(x, y)
}

func decodeJSON(text string) (any, bool) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil, false
	}
	return exactNumbers(v), true
}

// exactNumbers replaces number texts by their values.
func exactNumbers(v any) any {
	switch x := v.(type) {
	case json.Number:
		d, _ := parseDecimal(string(x))
		return d
	case []any:
		for i := range x {
			x[i] = exactNumbers(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = exactNumbers(x[k])
		}
	}
	return v
}
