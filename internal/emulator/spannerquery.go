package emulator

import (
	"context"
	"errors"
	"testing"

	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"
)

// Query runs sql in a database and returns its rows. Values are as the service writes them
// in JSON: integers, numerics, times and bytes as text, arrays as []any, NULL as nil.
func (s *SpannerEmulator) Query(t testing.TB, database, sql string) [][]any {
	t.Helper()
	rows, err := s.query(t.Context(), database, sql)
	if err != nil {
		t.Fatalf("query of %s: %v", database, err)
	}
	return rows
}

func (s *SpannerEmulator) query(ctx context.Context, database, sql string) (rows [][]any, err error) {
	session, err := s.data.CreateSession(ctx, &sppb.CreateSessionRequest{Database: database})
	if err != nil {
		return nil, err
	}
	defer func() {
		_, end := s.data.DeleteSession(context.WithoutCancel(ctx), &sppb.DeleteSessionRequest{Name: session.Name})
		err = errors.Join(err, end)
	}()
	answer, err := s.data.ExecuteSql(ctx, &sppb.ExecuteSqlRequest{Session: session.Name, Sql: sql})
	if err != nil {
		return nil, err
	}
	for _, row := range answer.GetRows() {
		rows = append(rows, row.AsSlice())
	}
	return rows, nil
}
