package bigtable

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/metadata"

	"github.com/pushsink/pushsink/sink"
)

// Query selects rows of one table, in the order of their keys.
type Query struct {
	Dest       sink.Dest // see Route.Dest
	AppProfile string
	Prefix     string
	Start      string // first key; empty = from the beginning
	End        string // first key that is not wanted; empty = to the end
	Limit      int    // most rows; 0 = all
	// PageToken continues behind the row it was made of (PageToken).
	PageToken string
}

// Row is one row with its cells, newest version of a column first.
type Row struct {
	Key   string
	Cells []Cell
}

// Cell is one version of one column.
type Cell struct {
	Family, Column  string
	TimestampMicros int64
	Value           []byte
}

// ErrPageToken: the token is none.
var ErrPageToken = errors.New("pageToken: not one of this endpoint's")

// PageToken is the token that continues a query behind the row with this key.
func PageToken(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }

// readAttempts is how often in a row a scan that gets nowhere is begun.
const readAttempts = 4

// ReadRows calls f with each row as it arrives, until f returns an error, which it
// returns. A scan that breaks off for a passing reason goes on behind the last row.
//
// It reads with the raw stub: the official client would open a second pool per instance,
// with background work of its own, repeat without bound, and act on the environment.
func (s *Sink) ReadRows(ctx context.Context, q Query, f func(Row) error) error {
	after := ""
	if q.PageToken != "" {
		b, err := base64.RawURLEncoding.Strict().DecodeString(q.PageToken)
		if err != nil || len(b) == 0 || len(b) > maxKeyBytes {
			return ErrPageToken
		}
		after = string(b)
	}
	c, done, err := s.borrow(ctx, q.Dest.Instance, false)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()

	r := reader{query: q, client: c, after: after, f: f}
	for tries := 1; ; tries++ {
		before := r.after
		finished, err := r.scan(ctx)
		if finished || err == nil {
			return err
		}
		if r.after != before {
			tries = 1
		}
		if fail := inspect(err, true); ctx.Err() != nil || !passes(fail.code) || tries >= readAttempts {
			// The service's words may quote a key.
			return &callError{cause: err, text: fmt.Sprintf("reading table %s: %s", q.Dest.Table, fail.code)}
		}
	}
}

// reader is one ReadRows: what it delivered and what it still wants.
type reader struct {
	query  Query
	client *client
	f      func(Row) error
	after  string // the last key that is done with
	rows   int    // delivered
}

// scan runs one call. finished says that its error, if any, is final.
func (r *reader) scan(ctx context.Context) (finished bool, err error) {
	q := &r.query
	set, empty := rowRange(q.Prefix, q.Start, q.End, r.after)
	if empty || q.Limit > 0 && r.rows >= q.Limit {
		return true, nil
	}
	name := tableName(q.Dest)
	req := &btpb.ReadRowsRequest{TableName: name, AppProfileId: q.AppProfile, Rows: set}
	if q.Limit > 0 {
		req.RowsLimit = int64(q.Limit - r.rows)
	}
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(ctx, headers(name, dataParams("table_name", name, q.AppProfile))))
	defer cancel()
	stream, err := r.client.data.ReadRows(ctx, req)
	if err != nil {
		return false, err
	}
	var rows assembler
	rows.last = r.after
	for {
		resp, err := stream.Recv()
		if err == io.EOF {
			return true, rows.end()
		}
		if err != nil {
			return false, err
		}
		for _, chunk := range resp.Chunks {
			row, err := rows.add(chunk)
			if err != nil {
				return true, err
			}
			if row == nil {
				continue
			}
			if err := r.f(*row); err != nil {
				return true, err
			}
			r.after = row.Key
			r.rows++
		}
		if key := string(resp.LastScannedRowKey); key > r.after {
			r.after = key
			rows.last = key
		}
	}
}

// rowRange is what is wanted of prefix and [start, end), behind after. empty: nothing.
func rowRange(prefix, start, end, after string) (set *btpb.RowSet, empty bool) {
	start = max(start, prefix)
	if p := prefixEnd(prefix); p != "" && (end == "" || p < end) {
		end = p
	}
	if after != "" {
		start = max(start, after+"\x00") // the next possible key
	}
	if end != "" && start >= end {
		return nil, true
	}
	rr := &btpb.RowRange{}
	if start != "" {
		rr.StartKey = &btpb.RowRange_StartKeyClosed{StartKeyClosed: []byte(start)}
	}
	if end != "" {
		rr.EndKey = &btpb.RowRange_EndKeyOpen{EndKeyOpen: []byte(end)}
	}
	return &btpb.RowSet{RowRanges: []*btpb.RowRange{rr}}, false
}

// prefixEnd is the first key behind all that begin with prefix; empty = there is none.
func prefixEnd(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return ""
}
