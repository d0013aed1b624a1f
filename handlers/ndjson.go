package handlers

import (
	"bytes"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pushsink/pushsink/schema"
)

// The buffer that a stream is read into: small for a sender that trickles, larger while the
// reads fill it. A line that is longer makes it grow, up to the record limit.
const (
	minStreamBuffer = 4 << 10
	maxStreamBuffer = 256 << 10
)

var newline = []byte{'\n'}

// stream takes lines of JSON as they arrive. What is held is one buffer, and the records of
// the groups that wait in the writer; neither depends on how long the stream is. Each read is
// submitted at once, so that a slow sender's records do not wait for its next ones.
func (b *run) stream() error {
	x := b.x
	defer x.closeBody()
	if err := x.openBody(b.h.limits.BatchMaxBodyBytes, "BATCH_MAX_BODY_BYTES"); err != nil {
		return err
	}
	size, most := minStreamBuffer, int(min(maxStreamBuffer, b.h.budget.max/8))
	in := lines{h: b.h, buf: b.h.buffers.get(size)}
	// The last buffers; those handed over went to their groups.
	defer func() {
		in.drop()
		b.h.buffers.put(in.buf)
	}()
	for {
		n, err := x.content.Read(in.buf.b[len(in.buf.b):cap(in.buf.b)])
		in.buf.b = in.buf.b[:len(in.buf.b)+n]
		full := len(in.buf.b) == cap(in.buf.b)
		for {
			g, last := b.takeLines(&in, err == io.EOF)
			if g == nil {
				break
			}
			if full {
				size = max(min(2*size, most), minStreamBuffer)
			} else if len(in.buf.b) < size/4 {
				size = max(size/2, minStreamBuffer)
			}
			in.handOver(g, size)
			b.put(g)
			if b.stop != nil {
				return b.stop
			}
			if last {
				break
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return brokenUnless(err)
		}
		if b.x.ctx.Err() != nil {
			return errLate
		}
		b.x.release(in.shrink())
	}
}

// lines cuts a buffer into lines.
type lines struct {
	h   *api
	buf *buffer
	at  int // the first byte of buf that no line took
	// searched: there is no line ending from at up to here, so that a long line that comes
	// in small pieces is searched once.
	searched int
	// skipping: the line that begins at `at` is over the record limit and is passed over
	// to its end.
	skipping bool
	// pieces are the beginning of a long line that goes on in buf, from its first byte.
	pieces []*buffer
	// before is how many bytes stand in pieces, dropped how many of such bytes were let go
	// and are still charged.
	before, dropped int
}

// next gives the next complete line without its ending; more is false when there is none yet.
// At the end of the stream the last line needs no ending.
func (l *lines) next(end bool) (line []byte, more bool) {
	from := max(l.at, l.searched)
	if i := bytes.IndexByte(l.buf.b[from:], '\n'); i >= 0 {
		from += l.join()
		line = l.buf.b[l.at : from+i]
		l.at = from + i + 1
		return line, true
	}
	if end {
		l.join()
	}
	l.searched = len(l.buf.b)
	if rest := l.buf.b[l.at:]; end && len(rest) > 0 {
		l.at = len(l.buf.b)
		return rest, true
	}
	return nil, false
}

// most is how many records the line just taken and what follows it in the buffer are at most.
func (l *lines) most() int {
	// The last one may have no ending.
	return min(2+bytes.Count(l.buf.b[l.at:], newline), groupRecords)
}

// length is that of the line that has no ending yet.
func (l *lines) length() int { return l.before + len(l.buf.b) - l.at }

// join puts the pieces of a line before the rest of it, and gives how many bytes they were.
func (l *lines) join() int {
	n := l.before
	l.buf = l.h.buffers.join(l.pieces, l.buf)
	l.pieces, l.before = nil, 0
	return n
}

// drop lets go of a line's pieces.
func (l *lines) drop() {
	for _, b := range l.pieces {
		l.h.buffers.put(b)
	}
	l.dropped += l.before
	l.pieces, l.before = nil, 0
}

// handOver gives the buffer to the group whose records stand in it, and goes on with a new
// one that begins with what no line took.
func (l *lines) handOver(g *group, size int) {
	rest := l.buf.b[l.at:]
	next := l.h.buffers.get(max(size, min(2*len(rest), int(l.h.limits.MaxRecordBytes)+3)))
	next.b = append(next.b, rest...)
	g.buf, g.bytes = l.buf, int64(l.at+l.dropped)
	l.buf, l.searched, l.at, l.dropped = next, max(l.searched-l.at, 0), 0, 0
}

// shrink makes room for the next read, and gives the number of bytes that are not held any
// more.
func (l *lines) shrink() int64 {
	gone := l.at
	if l.at > 0 {
		l.buf.b = append(l.buf.b[:0], l.buf.b[l.at:]...)
		l.searched, l.at = max(l.searched-l.at, 0), 0
	}
	limit := int(l.h.limits.MaxRecordBytes)
	if l.skipping {
		gone += len(l.buf.b)
		l.buf.b, l.searched = l.buf.b[:0], 0
	}
	switch {
	case len(l.buf.b) < cap(l.buf.b):
	case cap(l.buf.b) >= pieceBytes:
		l.pieces, l.before = append(l.pieces, l.buf), l.before+len(l.buf.b)
		l.buf, l.searched = l.h.buffers.get(pieceBytes), 0
	default:
		// The line may still end within the limit, with CR LF.
		l.buf = l.h.buffers.grow(l.buf, min(2*cap(l.buf.b), limit+3))
	}
	return int64(gone)
}

// takeLines makes a group of the complete lines of the buffer; nil = there is no record among
// them. last reports that they are all taken.
func (b *run) takeLines(in *lines, end bool) (g *group, last bool) {
	limit := int(b.h.limits.MaxRecordBytes)
	for g == nil || len(g.items) < groupRecords {
		line, more := in.next(end)
		if !more {
			if in.length() > limit+2 && !in.skipping {
				// Reported now; the rest of the line is passed over.
				in.drop()
				in.skipping, in.at = true, len(in.buf.b)
				if g == nil {
					g = b.h.groups.get(1)
				}
				b.add(g, nil, b.h.recordTooLarge())
			}
			return g, true
		}
		if in.skipping {
			in.skipping = false
			continue
		}
		line = bytes.Trim(line, " \t\r")
		if len(line) == 0 {
			continue
		}
		var refused *schema.Error
		if len(line) > limit {
			line, refused = nil, b.h.recordTooLarge()
		}
		if g == nil {
			g = b.h.groups.get(in.most())
		}
		b.add(g, line, refused)
	}
	return g, false
}

// add appends a record to the group.
func (b *run) add(g *group, line []byte, refused *schema.Error) {
	index := b.rep.received
	b.rep.received++
	it := g.add()
	if refused != nil {
		// The line is not held, so its id cannot tell it from others.
		it.index, it.entry, it.refused = index, -1, refused
		return
	}
	if b.fill(it, index, line) && b.rt.Format != "json" {
		it.refused = oneValue(line)
	}
}

// oneValue checks that text is one JSON value, strict but for o, where the format's decoder
// does not read JSON.
func oneValue(text []byte, o ...jsontext.Options) *schema.Error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(text), o...)
	if _, err := dec.ReadValue(); err != nil {
		return syntaxError(text, err)
	}
	if _, err := dec.ReadToken(); err == nil {
		return &schema.Error{Code: schema.BadJSON, Detail: "data after the JSON value"}
	} else if err != io.EOF {
		return syntaxError(text, err)
	}
	return nil
}
