package handlers

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/pushsink/pushsink/schema"
)

// fakeRows is a table of rows, in order.
type fakeRows struct {
	rows []Row
	fail error // instead of the row behind the last
	last RowQuery
}

func (r *fakeRows) PageToken(key string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(key))
}

func (r *fakeRows) ReadRows(ctx context.Context, q RowQuery, f func(Row) error) error {
	r.last = q
	after, err := base64.RawURLEncoding.DecodeString(q.PageToken)
	if err != nil {
		return ErrPageToken
	}
	n := 0
	for _, row := range r.rows {
		if string(after) != "" && row.Key <= string(after) || !strings.HasPrefix(row.Key, q.Prefix) || row.Key < q.Start || q.End != "" && row.Key >= q.End {
			continue
		}
		if q.Limit > 0 && n == q.Limit {
			break
		}
		n++
		if err := f(row); err != nil {
			return err
		}
	}
	return r.fail
}

func rowsFixture(t *testing.T) (*fixture, *fakeRows) {
	rows := &fakeRows{}
	for i := range 5 {
		rows.rows = append(rows.rows, Row{Key: fmt.Sprintf("k%d", i), Cells: []Cell{{Family: "m", Column: "temp", Micros: 1_700_000_000_123_000, Value: []byte{0x40, 0x35, 0x80, 0, 0, 0, 0, 0}}}})
	}
	return newFixture(t, func(f *fixture) { f.route.Rows = rows }), rows
}

func (f *fixture) rows(query string) answer {
	f.t.Helper()
	return f.do(f.request("GET", "/v1/routes/r/rows?"+query, ""))
}

func keysOf(body string) (keys []string, next string) {
	for line := range strings.Lines(body) {
		if _, rest, ok := strings.Cut(line, `{"key":"`); ok {
			key, _, _ := strings.Cut(rest, `"`)
			keys = append(keys, key)
		} else if _, rest, ok := strings.Cut(line, `"nextPageToken":"`); ok {
			next, _, _ = strings.Cut(rest, `"`)
		}
	}
	return keys, next
}

func TestRows(t *testing.T) {
	f, rows := rowsFixture(t)
	a := f.rows("limit=1")
	if want := `{"key":"k0","cells":[{"family":"m","column":"temp","timestamp":"2023-11-14T22:13:20.123Z","value":"QDWAAAAAAAA="}]}` + "\n" + `{"nextPageToken":"azA"}` + "\n"; a.body != want {
		t.Errorf("got %s\nwant %s", a.body, want)
	}
	for query, want := range map[string]string{
		"": "k0 k1 k2 k3 k4", "prefix=k3": "k3", "start=k2&end=k4": "k2 k3", "limit=5": "k0 k1 k2 k3 k4", "limit=9": "k0 k1 k2 k3 k4", "prefix=x": "",
	} {
		a := f.rows(query)
		keys, next := keysOf(a.body)
		if a.status != 200 || strings.Join(keys, " ") != want || next != "" {
			t.Errorf("%s: %d %q next %q", query, a.status, keys, next)
		}
	}
	var all []string
	for next, pages := "", 0; ; pages++ {
		var keys []string
		keys, next = keysOf(f.rows("limit=2&pageToken=" + url.QueryEscape(next)).body)
		all = append(all, keys...)
		if next == "" {
			break
		}
		if pages > 3 {
			t.Fatal("the pages do not end")
		}
	}
	if strings.Join(all, " ") != "k0 k1 k2 k3 k4" {
		t.Errorf("pages: %q", all)
	}
	f.rows("table=t9&instance=eu&prefix=a%00b")
	if rows.last.Table != "t9" || rows.last.Instance != "eu" || rows.last.Prefix != "a\x00b" {
		t.Errorf("got %+v", rows.last)
	}
	rows.rows = []Row{{Key: "\xff\x00", Cells: []Cell{{Family: "f", Column: "\xfe", Value: nil}}}}
	if a := f.rows("decode=1"); a.body != `{"keyBase64":"/wA=","cells":[{"family":"f","columnBase64":"/g==","timestamp":"1970-01-01T00:00:00Z","value":""}]}`+"\n" {
		t.Errorf("bytes: %s", a.body)
	}
}

func TestRowsRefusals(t *testing.T) {
	f, rows := rowsFixture(t)
	for query, status := range map[string]int{
		"limit=0": 400, "limit=-1": 400, "limit=x": 400, "limit=1000000001": 400, "limit=1&limit=2": 400, "lmit=1": 400, "decode=yes": 400, "pageToken=%21": 400,
		"limit=1;decode=1": 400, "prefix=%zz": 400, "limit=1&%": 400,
	} {
		if a := f.rows(query); a.status != status || a.Detail == "" {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
	rows.rows = nil
	for _, c := range []struct {
		err    error
		status int
		code   schema.Code
	}{
		{ErrNoTable, 404, schema.NoSuchTable},
		{&schema.Error{Code: schema.TypeMismatch, Detail: "instance: not one of the route's"}, 400, schema.TypeMismatch},
		{errors.New(`row "secret"`), 503, schema.Unavailable},
		{fmt.Errorf("x: %w", context.DeadlineExceeded), 503, schema.Deadline},
	} {
		rows.fail = c.err
		a := f.rows("")
		f.want(c.err.Error(), a, c.status, c.code)
		if strings.Contains(a.body, "secret") {
			t.Errorf("the answer holds a key: %s", a.body)
		}
	}
	// A route whose table is a template asks for a name, where there was none.
	rows.fail = ErrNoTable
	f.route.Bigtable = &schema.BigtableTarget{}
	for query, asks := range map[string]bool{"": true, "table=": true, "table=t": false} {
		if a := f.rows(query); a.status != 404 || strings.Contains(a.Detail, "?table=") != asks {
			t.Errorf("%q: %d %q; want 404, and that it asks for a name: %v", query, a.status, a.Detail, asks)
		}
	}
	f.route.Rows = nil
}

// A failure in the middle is told, and half an answer is not taken for a whole one.
func TestRowsBrokenOff(t *testing.T) {
	f, rows := rowsFixture(t)
	rows.rows = make([]Row, 2000)
	for i := range rows.rows {
		rows.rows[i] = Row{Key: fmt.Sprintf("k%04d", i), Cells: []Cell{{Family: "f", Column: "c", Value: make([]byte, 100)}}}
	}
	rows.fail = errors.New("x")
	resp, err := (&http.Client{Transport: &http.Transport{}}).Get(f.server.URL + "/v1/routes/r/rows")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil {
		t.Error("the answer ended well")
	}
	lines := strings.Split(strings.TrimSpace(string(body)), "\n")
	last := lines[len(lines)-1]
	if len(lines) != 2001 || !strings.HasPrefix(last, `{"error":{`) || !strings.Contains(last, `"nextPageToken":"`+rows.PageToken("k1999")) {
		t.Errorf("%d lines, the last: %s", len(lines), last)
	}
	if spec, err := loadContract(); err != nil || spec.matches("Row", []byte(last)) != nil {
		t.Errorf("the last line is no Row: %s", last)
	}
}
