package load

import (
	"bytes"
	"errors"
	"strconv"
)

var errAnswer = errors.New("load: not an HTTP/1.1 answer")

// parseAnswer reads an answer at the beginning of b: its status and where it ends. size 0:
// it is not whole yet. Only what servers send to such requests is understood: a length,
// chunks, or a status without a body.
func parseAnswer(b []byte) (status, size int, err error) {
	head := bytes.Index(b, headEnd)
	if head < 0 {
		return 0, 0, nil
	}
	if head < 12 || !bytes.HasPrefix(b, version) {
		return 0, 0, errAnswer
	}
	status, err = strconv.Atoi(string(b[9:12]))
	if err != nil {
		return 0, 0, errAnswer
	}
	body := head + len(headEnd)
	if status == 204 || status == 304 {
		return status, body, nil
	}
	if at := headerValue(b[:head+2], contentLength); at != nil {
		n, err := strconv.Atoi(string(at))
		if err != nil || n < 0 {
			return 0, 0, errAnswer
		}
		if body+n > len(b) {
			return status, 0, nil
		}
		return status, body + n, nil
	}
	if headerValue(b[:head+2], transferEncoding) == nil {
		return 0, 0, errAnswer
	}
	size, err = chunksEnd(b, body)
	return status, size, err
}

var (
	version          = []byte("HTTP/1.1 ")
	headEnd          = []byte("\r\n\r\n")
	crlf             = []byte("\r\n")
	contentLength    = []byte("\r\ncontent-length: ")
	transferEncoding = []byte("\r\ntransfer-encoding: ")
)

// headerValue finds a header by "\r\nname: " in lower case; nil = it is not there.
func headerValue(head, name []byte) []byte {
	for from := 0; ; {
		at := bytes.Index(head[from:], crlf)
		if at < 0 || from+at+len(name) > len(head) {
			return nil
		}
		from += at
		if line := head[from : from+len(name)]; bytes.EqualFold(line, name) {
			value := head[from+len(name):]
			return value[:bytes.Index(value, crlf)]
		}
		from += len(crlf)
	}
}

// chunksEnd is where the chunks from position at of b end; 0 = not yet.
func chunksEnd(b []byte, at int) (int, error) {
	for {
		line := bytes.Index(b[at:], crlf)
		if line < 0 {
			return 0, nil
		}
		n, err := strconv.ParseUint(string(b[at:at+line]), 16, 31)
		if err != nil {
			return 0, errAnswer
		}
		at += line + len(crlf) + int(n) + len(crlf)
		if at > len(b) {
			return 0, nil
		}
		if n == 0 {
			return at, nil
		}
	}
}
