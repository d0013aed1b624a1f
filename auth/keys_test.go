package auth_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushsink/pushsink/auth"
	"github.com/pushsink/pushsink/internal/issuer"
)

// The keys' times, as docs/deploy.md tells them.
const (
	freshFor     = 15 * time.Minute
	waitAfter    = time.Hour
	keptFor      = 24 * time.Hour
	coolDown     = 10 * time.Second
	fetchTimeout = 3 * time.Second
)

// keysRig is a verifier in a bubble, where fetches are counted and time is exact.
type keysRig struct {
	t *testing.T
	i *issuer.Issuer
	v *auth.Verifier
}

func inBubble(t *testing.T, i *issuer.Issuer, do func(*keysRig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		do(&keysRig{t, i, newVerifier(t, config(i))})
		time.Sleep(fetchTimeout)
		synctest.Wait() // a goroutine that stays fails the test
	})
}

func (x *keysRig) verify(token string) *auth.Refusal {
	return x.v.Verify(context.Background(), token)
}

// signed is a token of now.
func (x *keysRig) signed(k *issuer.Key, change ...any) string {
	return k.Sign(x.t, issuer.Claims(change...))
}

func (x *keysRig) want(what, token string, reason auth.Reason) {
	x.t.Helper()
	want(x.t, what, x.verify(token), reason)
}

func (x *keysRig) wantFetches(what string, n int) {
	x.t.Helper()
	synctest.Wait()
	if got := x.i.Fetches(); got != n {
		x.t.Errorf("%s: %d fetches of keys, want %d", what, got, n)
	}
}

func TestAUTH06KeyRotated(t *testing.T) {
	a, b, c := issuer.NewKey(t, "a"), issuer.NewKey(t, "b"), issuer.NewKey(t, "c")
	inBubble(t, issuer.New(a), func(x *keysRig) {
		x.want("the first", x.signed(a), "")
		x.wantFetches("the first", 1)
		x.i.Publish(b)
		x.want("the first of the new key", x.signed(b), "")
		x.wantFetches("the new key", 2)
		x.want("a token of the old key", x.signed(a), auth.UnknownKey)

		// Ids that somebody made up.
		for n := range 1000 {
			x.want("a made-up id", issuer.NewStray(fmt.Sprint("stray", n)), auth.UnknownKey)
		}
		x.wantFetches("1,000 made-up ids within the cool-down", 2)
		x.want("a good token amid them", x.signed(b), "")

		// For minutes, ten a second: one fetch per cool-down, and good tokens do not notice.
		begin := time.Now()
		for n := 0; time.Since(begin) < 2*time.Minute; n++ {
			x.want("a made-up id", issuer.NewStray(fmt.Sprint("other", n)), auth.UnknownKey)
			if n%50 == 0 {
				x.want("a good token amid them", x.signed(b), "")
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := x.i.Fetches() - 2; n < 11 || n > 13 {
			t.Errorf("%d fetches in 2 minutes of made-up ids, want one per %s", n, coolDown)
		}

		// A key that came during the flood is known one cool-down later at the latest.
		x.i.Publish(b, c)
		time.Sleep(coolDown)
		x.want("the newest key", x.signed(c), "")
	})
}

// Requests that come together share a fetch, and one that goes away does not end it.
func TestAUTH06OneFetchForAll(t *testing.T) {
	a := issuer.NewKey(t, "a")
	i := issuer.New(a)
	i.Delay(2 * time.Second)
	inBubble(t, i, func(x *keysRig) {
		ctx, leave := context.WithCancel(x.t.Context())
		token := x.signed(a)
		var all sync.WaitGroup
		all.Go(func() { want(t, "the one that left", x.v.Verify(ctx, token), auth.Unavailable) })
		synctest.Wait()
		begin := time.Now()
		for n := range 100 {
			all.Go(func() { x.want("one of many", x.signed(a, "n", n), "") })
		}
		all.Go(func() { x.want("a forged one", issuer.NewStray("stray"), auth.UnknownKey) })
		time.Sleep(time.Second)
		leave()
		all.Wait()
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("they waited %s, want 2 s", took)
		}
		x.wantFetches("all", 1)
	})
}

// Without keys nothing is known of a token: it is neither bad nor good.
func TestAUTH06IssuerOutOfReach(t *testing.T) {
	a, b := issuer.NewKey(t, "a"), issuer.NewKey(t, "b")
	for name, fail := range map[string]func(*issuer.Issuer){
		"down":       func(i *issuer.Issuer) { i.Down() },
		"an error":   func(i *issuer.Issuer) { i.Answer(500, "no") },
		"a redirect": func(i *issuer.Issuer) { i.Answer(302, "elsewhere") },
		"no JSON":    func(i *issuer.Issuer) { i.Answer(200, "<html>") },
		"no key":     func(i *issuer.Issuer) { i.Answer(200, `{"keys":[]}`) },
		"no key of use": func(i *issuer.Issuer) {
			i.Answer(200, `{"keys":[{"kty":"oct","k":"AA","kid":"a"},{"kty":"RSA","n":"AQAB","e":"AQAB","kid":"a"}]}`)
		},
		"an endless answer": func(i *issuer.Issuer) { i.Answer(200, `{"keys":[`+string(make([]byte, 2<<20))) },
		"silence":           func(i *issuer.Issuer) { i.Delay(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			i := issuer.New(a)
			fail(i)
			inBubble(t, i, func(x *keysRig) {
				begin := time.Now()
				refusal := x.verify(x.signed(a))
				want(t, "without keys", refusal, auth.Unavailable)
				if took := time.Since(begin); took > fetchTimeout {
					t.Errorf("it took %s, want %s at most", took, fetchTimeout)
				}
				if refusal != nil && refusal.RetryAfter < time.Second {
					t.Errorf("try again after %s, want a second at least", refusal.RetryAfter)
				}
				// A flood meanwhile fetches once a second.
				token := x.signed(a)
				for range 1000 {
					x.want("without keys", token, auth.Unavailable)
					if name == "silence" {
						break
					}
				}
				time.Sleep(time.Second)
				if n := x.i.Fetches(); n > 2 {
					t.Errorf("%d fetches", n)
				}

				x.i.Publish(a)
				time.Sleep(time.Second)
				x.want("with keys again", x.signed(a), "")

				// Now that there are keys, they go on.
				fail(x.i)
				time.Sleep(5 * time.Second)
				x.want("a known key", x.signed(a), "")
				x.want("an unknown key while nobody can be asked", x.signed(b), auth.Unavailable)
				x.want("another in the cool-down", issuer.NewStray("stray"), auth.Unavailable)
				x.want("a known key, still", x.signed(a), "")
			})
		})
	}
}

// Keys serve on while the issuer is down, for a bounded time, and hold nobody up meanwhile.
func TestAUTH06KeysOutliveAnOutage(t *testing.T) {
	a := issuer.NewKey(t, "a")
	for name, fail := range map[string]func(*issuer.Issuer){
		"down":    func(i *issuer.Issuer) { i.Down() },
		"silence": func(i *issuer.Issuer) { i.Delay(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, issuer.New(a), func(x *keysRig) {
				begin := time.Now()
				x.want("at first", x.signed(a), "")
				fail(x.i)
				waited := time.Duration(0)
				for time.Since(begin) < keptFor-20*time.Minute {
					time.Sleep(10 * time.Minute)
					asked := time.Now()
					x.want("after "+time.Since(begin).String(), x.signed(a), "")
					waited += time.Since(asked)
				}
				if waited > fetchTimeout {
					t.Errorf("good tokens waited %s in a day, want %s at most", waited, fetchTimeout)
				}
				time.Sleep(keptFor - time.Since(begin) - time.Second)
				x.want("a second before their end", x.signed(a), "")
				time.Sleep(time.Second + fetchTimeout)
				remembered := x.signed(a)
				x.want("after their end", remembered, auth.Unavailable)
				x.i.Publish(a)
				time.Sleep(fetchTimeout)
				x.want("with the issuer back", remembered, "")
			})
		})
	}
}

// A token that was let in is refused once its key is withdrawn, also while it is remembered.
func TestAUTH06WithdrawnKey(t *testing.T) {
	a, b := issuer.NewKey(t, "a"), issuer.NewKey(t, "b")
	inBubble(t, issuer.New(a, b), func(x *keysRig) {
		token := x.signed(a, "exp", time.Now().Add(48*time.Hour).Unix())
		x.want("at first", token, "")
		x.i.Publish(b)
		// A busy server notices within freshFor and the fetch after it …
		time.Sleep(freshFor)
		x.want("the request that starts the fetch", token, "")
		synctest.Wait()
		x.wantFetches("keys no longer fresh", 2)
		x.want("withdrawn", token, auth.UnknownKey)
		x.want("the other key", x.signed(b), "")
	})
	inBubble(t, issuer.New(a, b), func(x *keysRig) {
		token := x.signed(a, "exp", time.Now().Add(48*time.Hour).Unix())
		x.want("at first", token, "")
		x.i.Publish(b)
		// … and one that slept does so before it lets anything in.
		time.Sleep(waitAfter)
		x.want("withdrawn while nothing came", token, auth.UnknownKey)
		x.wantFetches("the request and its forced fetch", 2)
	})
	// Another key under the same id is another key.
	other := issuer.NewKey(t, "a")
	inBubble(t, issuer.New(a), func(x *keysRig) {
		token := x.signed(a, "exp", time.Now().Add(48*time.Hour).Unix())
		x.want("at first", token, "")
		x.i.Publish(other)
		time.Sleep(waitAfter)
		x.want("exchanged", token, auth.BadSignature)
	})
	// The same key, fetched anew, is the same.
	inBubble(t, issuer.New(a), func(x *keysRig) {
		token := x.signed(a, "exp", time.Now().Add(48*time.Hour).Unix())
		for range 30 {
			x.want("all day", token, "")
			time.Sleep(time.Hour - time.Minute)
		}
	})
}

// A remembered token ends with its exp, and the leeway, like any other.
func TestRememberedTokenExpires(t *testing.T) {
	a := issuer.NewKey(t, "a")
	inBubble(t, issuer.New(a), func(x *keysRig) {
		token := x.signed(a)
		for _, c := range []struct {
			at     time.Duration
			reason auth.Reason
		}{{0, ""}, {time.Hour - time.Second, ""}, {time.Hour, ""}, {time.Hour + time.Minute - time.Second, ""}, {time.Hour + time.Minute, auth.Expired}} {
			begin := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // a bubble's
			time.Sleep(c.at - time.Since(begin))
			x.want("after "+c.at.String(), token, c.reason)
		}
	})
}

// A wait for keys ends with the request, however long the fetch may take.
func TestWaitIsBounded(t *testing.T) {
	a := issuer.NewKey(t, "a")
	i := issuer.New(a)
	i.Delay(2 * time.Second)
	synctest.Test(t, func(t *testing.T) {
		c := config(i)
		c.MaxWait = 500 * time.Millisecond
		var ended []error
		c.OnFetch = func(err error) { ended = append(ended, err) }
		v := newVerifier(t, c)
		begin := time.Now()
		want(t, "a short wait", v.Verify(t.Context(), a.Sign(t, issuer.Claims())), auth.Unavailable)
		if took := time.Since(begin); took != c.MaxWait {
			t.Errorf("it took %s, want %s", took, c.MaxWait)
		}
		// The fetch went on, for those who come later.
		time.Sleep(2 * time.Second)
		synctest.Wait() // and was reported
		want(t, "after the fetch", v.Verify(t.Context(), a.Sign(t, issuer.Claims())), "")
		i.Delay(2 * time.Second)
		want(t, "an unknown key, not looked for to the end", v.Verify(t.Context(), issuer.NewStray("b")), auth.Unavailable)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(ended) != 2 || ended[0] != nil || ended[1] != nil || i.Fetches() != 2 {
			t.Errorf("%d fetches that ended %v, want two, well", i.Fetches(), ended)
		}
		i.Delay(time.Hour)
		time.Sleep(freshFor)
		want(t, "keys no longer fresh", v.Verify(t.Context(), a.Sign(t, issuer.Claims())), "")
		time.Sleep(fetchTimeout)
		synctest.Wait()
		if len(ended) != 3 || !errors.Is(ended[2], context.DeadlineExceeded) {
			t.Errorf("the slow fetch ended %v, want by its own timeout", ended)
		}
	})
}
