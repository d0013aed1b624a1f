package redrive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pushsink/pushsink/sink/deadletter"
)

// tries of one letter. With maxTimeout and maxPause they end within the lease.
const (
	tries    = 3
	maxPause = 10 * time.Second
)

// errStop marks an answer that every letter would get: a refused token, a wrong path.
var errStop = errors.New("the run was stopped")

// poster posts records to the route. Redirects are not followed: they would carry the
// token elsewhere and turn the POST into a GET.
type poster struct {
	cfg Config
	url string
}

func newPoster(c Config) *poster {
	return &poster{cfg: c, url: c.URL.JoinPath("v1", "routes", url.PathEscape(c.Route), "push").String()}
}

// post returns nil when the server answered 204. 429, 503 and a broken connection are
// tried again, as a redelivery would.
func (p *poster) post(ctx context.Context, l *deadletter.Letter) error {
	envelope := p.cfg.Envelope
	if envelope == "" {
		envelope = l.Envelope
	}
	body, header, err := encode(l.Record, envelope)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		pause, err := p.once(ctx, body, header.Clone())
		if err == nil || pause == 0 || try == tries {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// once makes one attempt. pause is set when another one may help.
func (p *poster) once(ctx context.Context, body []byte, header http.Header) (pause time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	if p.cfg.Token != nil {
		token, err := p.cfg.Token(ctx)
		if err != nil {
			return 0, fmt.Errorf("%w: no ID token for -audience: %w", errStop, err)
		}
		header.Set("Authorization", "Bearer "+token)
	}
	req, err := request(ctx, p.url, body, header)
	if err != nil {
		return 0, err
	}
	// 500 ms to 1 s, so that the letters of a round do not come back as one.
	pause = 500*time.Millisecond + rand.N(500*time.Millisecond)
	resp, err := p.cfg.HTTP.RoundTrip(req)
	if err != nil {
		return pause, err
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	switch resp.StatusCode {
	case http.StatusNoContent:
		return 0, nil
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
			pause = min(time.Duration(min(s, 3600))*time.Second, maxPause)
		}
		return pause, answered(resp.StatusCode, text)
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed:
		return 0, fmt.Errorf("%w: POST %s: %w", errStop, p.url, answered(resp.StatusCode, text))
	default:
		return 0, answered(resp.StatusCode, text)
	}
}

// answered describes an answer by its status and the problem's code and detail, which
// the server keeps free of data.
func answered(code int, body []byte) error {
	var problem struct {
		Code   string `json:"code"`
		Detail string `json:"detail"`
	}
	s := fmt.Sprintf("answered %d", code)
	if json.Unmarshal(body, &problem) == nil {
		if problem.Code != "" {
			s += " " + problem.Code
		}
		if problem.Detail != "" {
			s += ": " + problem.Detail
		}
	}
	return errors.New(s)
}
