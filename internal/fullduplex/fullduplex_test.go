package fullduplex

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// slow is a body that goes on once the server is gone.
type slow struct {
	gone <-chan struct{}
	left int
}

func (s *slow) Read(p []byte) (int, error) {
	<-s.gone
	if s.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), s.left)
	s.left -= n
	return n, nil
}

// A server answers, and resets the connection while the body is still being sent.
func TestTheAnswerIsHeard(t *testing.T) {
	for _, answer := range []string{"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno", ""} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			c, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			for in := bufio.NewReader(c); ; {
				line, err := in.ReadString('\n')
				if err != nil {
					t.Error(err)
				}
				if err != nil || line == "\r\n" {
					break
				}
			}
			_, _ = io.WriteString(c, answer)
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}()
		transport := &http.Transport{DialContext: Dial}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr().String(), &slow{gone, 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		request.ContentLength = 64 << 20
		response, err := transport.RoundTrip(request)
		switch {
		case answer == "":
			if err == nil {
				t.Errorf("no answer became %d", response.StatusCode)
			}
		case err != nil:
			t.Error(err)
		default:
			text, err := io.ReadAll(response.Body)
			if response.StatusCode != 413 || strings.TrimSpace(string(text)) != "no" || err != nil {
				t.Errorf("%d %q %v", response.StatusCode, text, err)
			}
			_ = response.Body.Close()
		}
		transport.CloseIdleConnections()
		_ = l.Close()
	}
}
