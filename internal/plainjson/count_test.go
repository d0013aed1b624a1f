package plainjson

import "testing"

func TestCount(t *testing.T) {
	for text, want := range map[string][4]int{
		``:                                {},
		`1,2`:                             {1},
		`{"a":[1,2],"b":{}}`:              {2, 1, 2, 2},
		`{"a,[{:":",[{:\",[{:","b":"\\"}`: {1, 0, 1, 2},
		`"\\\"",":`:                       {1},
		`,"a:`:                            {1},
		`"\`:                              {},
	} {
		if got := Count([]byte(text), ",[{:"); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
