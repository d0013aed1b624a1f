package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Problem is one thing that is wrong with a routes file.
type Problem struct {
	Line, Column int    // from 1, in characters
	Path         string // like routes.telemetry.bigtable.set[0].value; empty = the file
	Message      string
	Excerpt      string // the line, without its line break
}

// FileError holds everything that is wrong with a routes file, in the order of the file.
type FileError struct {
	File     string
	Problems []Problem
}

// Error shows each problem with file, line and column, the line itself and a caret.
func (e *FileError) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s:%d:%d: ", e.File, p.Line, p.Column)
		if p.Path != "" {
			b.WriteString(p.Path + ": ")
		}
		b.WriteString(p.Message)
		if p.Excerpt != "" {
			number := fmt.Sprintf("%5d", p.Line)
			line, lead := cutExcerpt(p.Excerpt, p.Column)
			fmt.Fprintf(&b, "\n%s | %s\n%s | %s^", number, line, strings.Repeat(" ", len(number)), lead)
		}
	}
	return b.String()
}

// cutExcerpt shortens a long line around column and gives the space before the caret.
func cutExcerpt(line string, column int) (shown, lead string) {
	const width = 120 // characters
	runes := []rune(strings.ReplaceAll(line, "\t", " "))
	at := min(max(column-1, 0), len(runes))
	from := max(0, at-width*2/3)
	to := min(len(runes), from+width)
	return string(runes[from:to]), strings.Repeat(" ", at-from)
}

// problems collects what is wrong with one file.
type problems struct {
	file  string
	lines []string
	list  []Problem
}

// lineBreaks makes YAML's three line breaks one.
var lineBreaks = strings.NewReplacer("\r\n", "\n", "\r", "\n")

func newProblems(file string, text []byte) *problems {
	return &problems{file: file, lines: strings.Split(string(text), "\n")}
}

func (p *problems) add(at mark, path, format string, args ...any) {
	problem := Problem{Line: max(at.line, 1), Column: max(at.column, 1), Path: path, Message: fmt.Sprintf(format, args...)}
	if problem.Line <= len(p.lines) {
		problem.Excerpt = strings.ToValidUTF8(strings.TrimRight(p.lines[problem.Line-1], "\r"), "\uFFFD")
	}
	p.list = append(p.list, problem)
}

func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	slices.SortStableFunc(p.list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &FileError{File: p.file, Problems: p.list}
}

// suggest is `, did you mean "x"?` for the known name nearest to name, or nothing.
func suggest(name string, known []string) string {
	best, distance := "", max(1, utf8.RuneCountInString(name)/3)+1
	for _, k := range known {
		if strings.EqualFold(k, name) {
			best = k
			break
		}
		if d := editDistance(name, k, distance); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", best)
}

// editDistance is how many characters have to be changed, added, left out or swapped with
// their neighbour to make b of a; limit when it is not below it.
func editDistance(a, b string, limit int) int {
	ra, rb := []rune(a), []rune(b)
	if d := len(ra) - len(rb); d >= limit || -d >= limit {
		return limit
	}
	before, row, next := make([]int, len(rb)+1), make([]int, len(rb)+1), make([]int, len(rb)+1)
	for j := range row {
		row[j] = j
	}
	for i := range ra {
		next[0] = i + 1
		for j := range rb {
			cost := 1
			if ra[i] == rb[j] {
				cost = 0
			}
			next[j+1] = min(row[j+1]+1, next[j]+1, row[j]+cost)
			if i > 0 && j > 0 && ra[i] == rb[j-1] && ra[i-1] == rb[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(rb)]
}
