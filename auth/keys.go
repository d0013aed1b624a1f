package auth

import (
	"context"
	"crypto/rsa"
	"errors"
	"net/http"
	"sync"
	"time"
)

const (
	// freshFor is how long keys are used without a look at the issuer; past it they are
	// fetched again while requests go on with the old ones.
	freshFor = 15 * time.Minute
	// waitAfter is when requests wait for that fetch. A key that the issuer withdrew is
	// accepted for no longer while the issuer can be reached.
	waitAfter = time.Hour
	// keptFor is how long keys are used while the issuer cannot be reached.
	keptFor = 24 * time.Hour
	// coolDown is the least time between two fetches for the sake of unknown key ids, which
	// anybody can make up.
	coolDown = 10 * time.Second
	// retryDelay is the least time from a failed fetch to the next.
	retryDelay = time.Second
)

// keySet is the issuer's keys, fetched when a request needs them. Concurrent requests share
// one fetch, which belongs to none of them: it ends by its own timeout.
type keySet struct {
	fetch   func(ctx context.Context) (map[string]*rsa.PublicKey, error)
	maxWait time.Duration
	onFetch func(error)

	mu      sync.Mutex                // guards what follows; never held during a fetch
	keys    map[string]*rsa.PublicKey // by key id; never changed, but replaced
	fetched time.Time                 // when the fetch of keys began
	failing bool                      // the last fetch failed
	retry   time.Time                 // no fetch begins before
	forced  time.Time                 // when the last fetch for an unknown key id began
	open    chan struct{}             // closed at the end of the fetch under way; nil = there is none
}

func newKeySet(c Config) *keySet {
	client := newClient(c.Transport)
	onFetch := c.OnFetch
	if onFetch == nil {
		onFetch = func(error) {}
	}
	return &keySet{
		fetch: func(ctx context.Context) (map[string]*rsa.PublicKey, error) {
			return fetchKeys(ctx, client, c.JWKSURL)
		},
		maxWait: c.MaxWait, onFetch: onFetch,
	}
}

// lookup returns the issuer's key of that id. The pointer stays the same until the keys are
// fetched again.
func (k *keySet) lookup(ctx context.Context, kid string) (*rsa.PublicKey, *Refusal) {
	k.mu.Lock()
	now := time.Now()
	key, age := k.known(kid, now)
	if key != nil && (age < waitAfter || k.failing) {
		if age >= freshFor {
			k.begin(now)
		}
		k.mu.Unlock()
		return key, nil
	}
	open := k.open
	switch {
	case open != nil:
	case age < keptFor && key == nil:
		open = k.beginForced(now)
	default:
		open = k.begin(now)
	}
	k.mu.Unlock()
	ended := true
	if open != nil {
		ended = k.wait(ctx, open)
	}

	k.mu.Lock()
	defer k.mu.Unlock()
	now = time.Now()
	key, age = k.known(kid, now)
	switch {
	case key != nil:
		return key, nil
	case ended && !k.failing && age < keptFor:
		return nil, &Refusal{Reason: UnknownKey, Detail: "the token's key (kid) is not among its issuer's"}
	default:
		return nil, &Refusal{Reason: Unavailable, Detail: "the keys of the tokens' issuer are out of reach (AUTH_JWKS_URL)",
			RetryAfter: max(retryDelay, k.retry.Sub(now))}
	}
}

// known returns the key, if it may be used, and the age of the keys; with none it is keptFor.
func (k *keySet) known(kid string, now time.Time) (*rsa.PublicKey, time.Duration) {
	if k.keys == nil {
		return nil, keptFor
	}
	age := now.Sub(k.fetched)
	if age >= keptFor {
		return nil, age
	}
	return k.keys[kid], age
}

// beginForced is begin for an unknown key id: the first time at once, and then once per coolDown.
func (k *keySet) beginForced(now time.Time) chan struct{} {
	if !k.forced.IsZero() && now.Sub(k.forced) < coolDown {
		return nil
	}
	open := k.begin(now)
	if open != nil {
		k.forced = now
	}
	return open
}

// begin starts a fetch, or joins the one under way; nil = the last one failed just now.
func (k *keySet) begin(now time.Time) chan struct{} {
	if k.open != nil {
		return k.open
	}
	if now.Before(k.retry) {
		return nil
	}
	open := make(chan struct{})
	k.open = open
	go k.run(now)
	return open
}

// run fetches once. It owns the fetch; the callers only wait.
func (k *keySet) run(began time.Time) {
	err := errPanic
	var keys map[string]*rsa.PublicKey
	defer func() {
		recover() // of the parser, on what somebody else sent: the fetch has failed
		k.end(began, keys, err)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	keys, err = k.fetch(ctx)
}

var errPanic = errors.New("auth: a panic while fetching keys")

func (k *keySet) end(began time.Time, keys map[string]*rsa.PublicKey, err error) {
	k.mu.Lock()
	k.failing = err != nil
	if err == nil {
		k.keys, k.fetched = keys, began
	} else {
		k.retry = time.Now().Add(retryDelay)
	}
	open := k.open
	k.open = nil
	k.mu.Unlock()
	close(open)
	k.onFetch(err)
}

// wait reports whether the fetch ended before ctx and maxWait did.
func (k *keySet) wait(ctx context.Context, open chan struct{}) bool {
	ctx, cancel := context.WithTimeout(ctx, k.maxWait)
	defer cancel()
	select {
	case <-open:
		return true
	case <-ctx.Done():
		return false
	}
}

// newClient keeps no connections: they are used four times an hour, and would be goroutines.
func newClient(transport http.RoundTripper) *http.Client {
	if transport == nil {
		transport = &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, ForceAttemptHTTP2: true,
			MaxResponseHeaderBytes: 64 << 10}
	}
	return &http.Client{
		Transport: transport,
		// Keys come from where the configuration says, and from nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
