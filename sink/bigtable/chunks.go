package bigtable

import (
	"errors"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
)

// assembler makes rows of the chunks of a ReadRows stream. A chunk continues the row,
// family and column of the one before where it names none; value_size says that more of
// the cell follows; reset_row takes the row back; commit_row completes it
// (google.bigtable.v2.ReadRowsResponse.CellChunk).
type assembler struct {
	last    string // key of the last complete row: keys only grow
	row     *Row
	cell    Cell
	partial bool // cell waits for more of its value
}

var errChunks = errors.New("bigtable sent a malformed row")

// add takes the next chunk and returns the row it completes, if any.
func (a *assembler) add(c *btpb.ReadRowsResponse_CellChunk) (*Row, error) {
	if c.GetResetRow() {
		if a.row == nil {
			return nil, errChunks
		}
		a.row, a.cell, a.partial = nil, Cell{}, false
		return nil, nil
	}
	key := string(c.RowKey)
	if a.row == nil {
		if key == "" || key <= a.last || c.FamilyName == nil || c.Qualifier == nil {
			return nil, errChunks
		}
		a.row = &Row{Key: key}
	} else if key != "" && key != a.row.Key {
		return nil, errChunks
	}
	if a.partial {
		if c.FamilyName != nil || c.Qualifier != nil {
			return nil, errChunks
		}
		a.cell.Value = append(a.cell.Value, c.Value...)
	} else {
		if c.FamilyName != nil {
			if c.Qualifier == nil {
				return nil, errChunks
			}
			a.cell.Family = c.FamilyName.Value
		}
		if c.Qualifier != nil {
			a.cell.Column = string(c.Qualifier.Value)
		}
		a.cell.TimestampMicros = c.TimestampMicros
		a.cell.Value = c.Value
		if c.ValueSize > 0 {
			// The whole size is announced, but the bytes are trusted only as they come.
			a.cell.Value = append([]byte(nil), c.Value...)
		}
	}
	if a.partial = c.ValueSize > 0; a.partial {
		if c.GetCommitRow() {
			return nil, errChunks
		}
		return nil, nil
	}
	a.row.Cells = append(a.row.Cells, a.cell)
	if !c.GetCommitRow() {
		return nil, nil
	}
	row := a.row
	a.last, a.row, a.cell = row.Key, nil, Cell{}
	return row, nil
}

// end reports a stream that ends inside a row.
func (a *assembler) end() error {
	if a.row != nil {
		return errChunks
	}
	return nil
}
