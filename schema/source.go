package schema

import "strings"

// source is the text of the entry whose key stands at at, as it is in the file, without the
// indentation that all of it shares: to the next line that is not indented deeper.
func (p *problems) source(at mark) string {
	if at.line < 1 || at.line > len(p.lines) {
		return ""
	}
	lines := p.lines[at.line-1:]
	indent := indentOf(lines[0])
	end := 1
	for i, line := range lines[1:] {
		if strings.TrimSpace(line) == "" {
			continue
		}
		if indentOf(line) <= indent {
			break
		}
		end = i + 2
	}
	var b strings.Builder
	for _, line := range lines[:end] {
		line = strings.TrimRight(line, " \t\r")
		b.WriteString(line[min(indent, len(line)):])
		b.WriteByte('\n')
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
