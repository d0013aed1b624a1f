// Package reading is the record that every contender takes, and the row that it becomes:
// key device#seq, family m, five cells with the record's own time.
package reading
