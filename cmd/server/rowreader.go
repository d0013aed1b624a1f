package main

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pushsink/pushsink/handlers"
	"github.com/pushsink/pushsink/sink/bigtable"
)

// rowReader reads a route's table back for the handlers.
type rowReader struct {
	backend *bigtable.Sink
	route   *bigtable.Route
	// fixed: the route has one table, whatever the record.
	fixed bool
}

func (r rowReader) ReadRows(ctx context.Context, q handlers.RowQuery, f func(handlers.Row) error) error {
	if q.Table == "" && !r.fixed {
		return handlers.ErrNoTable
	}
	dest, err := r.route.Dest(q.Instance, q.Table)
	if err != nil {
		return err
	}
	err = r.backend.ReadRows(ctx, bigtable.Query{
		Dest: dest, AppProfile: r.route.AppProfile(),
		Prefix: q.Prefix, Start: q.Start, End: q.End, Limit: q.Limit, PageToken: q.PageToken,
	}, func(row bigtable.Row) error {
		cells := make([]handlers.Cell, len(row.Cells))
		for i, c := range row.Cells {
			cells[i] = handlers.Cell{Family: c.Family, Column: c.Column, Micros: c.TimestampMicros, Value: c.Value}
		}
		return f(handlers.Row{Key: row.Key, Cells: cells})
	})
	switch {
	case errors.Is(err, bigtable.ErrPageToken):
		return handlers.ErrPageToken
	case status.Code(err) == codes.NotFound:
		return handlers.ErrNoTable
	}
	return err
}

func (rowReader) PageToken(key string) string { return bigtable.PageToken(key) }
