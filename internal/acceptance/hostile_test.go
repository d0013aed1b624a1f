package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pushsink/pushsink/internal/issuer"
	"github.com/pushsink/pushsink/internal/scripted"
)

// hostile is the full form (make hostile): each attack alone, then all at once, for longer.
// The short form has all at once only, and on a machine that does other things as well.
var hostile = os.Getenv("HOSTILE") == "1"

const (
	// worseBy is how much the p99 of good pushes may rise beside an attack.
	worseBy = 3
	// hostileRSS is the most memory that the server may ever have had.
	hostileRSS = 512 << 20
	// goodRate is how many good pushes a second go beside it, whatever their answers take.
	goodRate = 200
	// together is the part of its rate that each attack has where all go at once.
	together = 0.05
)

// A measurement is some rounds of equal length. In the second and third quarter of each the
// attackers attack, so that pushes without them, just before and just after, meet the same
// load of others on the machine. The verdict is the median of the rounds' ratios: the best
// would pass a server that is slow in most rounds, the worst would measure the machine.
func rounds() int {
	if hostile {
		return 3
	}
	return 5
}

func round() time.Duration {
	if hostile {
		return 6 * time.Second
	}
	return 2 * time.Second
}

// settles is what the server may still have to do when the attackers pause: pushes that are
// due so soon after an attack count as neither with nor without.
func settles() time.Duration { return round() / 8 }

// TestHostileClients: under each attack the server goes on to write good pushes, nearly as
// fast as without, stays small, and keeps nothing of the attack when it ends.
//
// The attackers are a process of their own, at the lowest priority, on one thread and at a
// bounded rate: on a machine where they share two cores with the server, an attacker that
// takes all the CPU it can get would be measured, and not the server.
func TestHostileClients(t *testing.T) {
	groups := [][]attack{attacks}
	if hostile {
		groups = nil
		for _, a := range attacks {
			groups = append(groups, []attack{a})
		}
		groups = append(groups, attacks)
	}
	bt := scripted.New(t, scripted.Options{Latency: 5 * time.Millisecond, KeysOnly: true})
	bt.AddTable(tableName("json"), "f")
	s := startServer(t, plainBinary(t), bt.Addr(), jsonRoutes, hostileEnv(nil))
	underAttack(t, s, bt, groups)
}

// TestHostileTokens: the same with AUTH=oidc and tokens that are none, of others, forged, or
// of a key that nobody knows, each of another one.
func TestHostileTokens(t *testing.T) {
	key := issuer.NewKey(t, "a")
	issues := issuer.New(key)
	keys := httptest.NewServer(issues)
	t.Cleanup(keys.Close)
	bt := scripted.New(t, scripted.Options{Latency: 5 * time.Millisecond, KeysOnly: true})
	bt.AddTable(tableName("json"), "f")
	s := startServer(t, plainBinary(t), bt.Addr(), jsonRoutes, hostileEnv(map[string]string{
		"PUSHSINK_AUTH": "oidc", "PUSHSINK_AUTH_JWKS_URL": keys.URL, "PUSHSINK_AUTH_AUDIENCES": issuer.Audience, "PUSHSINK_AUTH_EMAILS": issuer.Email}))
	began := time.Now()
	underAttack(t, s, bt, [][]attack{tokenAttacks}, "Authorization", "Bearer "+key.Sign(t, issuer.Claims()))
	// One at first, one for the first unknown key, then one in ten seconds at most (AUTH-06).
	if n, most := issues.Fetches(), 3+int(time.Since(began)/(10*time.Second)); n > most {
		t.Errorf("AUTH-06: the keys were fetched %d times, want at most %d", n, most)
	}
}

// hostileEnv are a server's options: with its own times in the full form. In the short form it
// is patient: an attack would be over before they end, and a good push of a client that the
// machine lets stand still for so long would not be.
func hostileEnv(more map[string]string) map[string]string {
	env := map[string]string{"PUSHSINK_METRICS_PORT": "0"}
	if hostile {
		for name := range patient {
			env[name] = ""
		}
	}
	maps.Copy(env, more)
	return env
}

// underAttack holds the server to its bounds under each group of attacks. headers are those of
// good pushes.
func underAttack(t *testing.T, s *server, bt *scripted.Server, groups [][]attack, headers ...string) {
	t.Helper()
	metrics := metricsURL(t, s)
	good := &goodPushes{t: t, url: s.URL, stored: func(id string) bool { return bt.Has(tableName("json"), id) },
		clients: []*http.Client{newClient(t), newH2Client(t)}, headers: headers}
	good.send(time.Second) // connections, and the first pages of everything
	good.quiet()
	idle := readGauges(t, metrics)

	for _, group := range groups {
		name := group[0].name
		if len(group) > 1 {
			name = "all at once"
		}
		t.Run(name, func(t *testing.T) {
			good.t = t
			busy := metricFloat(t, metrics, "process_cpu_seconds_total")
			a := startAttack(t, s.URL, group, time.Duration(rounds())*round())
			m := good.measure()
			a.end(t)
			busy = metricFloat(t, metrics, "process_cpu_seconds_total") - busy
			t.Logf("p99 of pushes beside the attack %v, without %v: %.2f times in the median of %.2f; server: CPU %.1f s, peak RSS %d MiB; %v",
				m.beside, m.alone, m.median(), m.ratios(), busy, memory(t, s, "VmHWM")>>20, a.summary())
			m.judge(t)
			if peak := memory(t, s, "VmHWM"); peak > hostileRSS {
				t.Errorf("peak RSS %d MiB, want at most %d", peak>>20, hostileRSS>>20)
			}
			// The connections of the good clients may come and go.
			const slack = 12
			var now gauges
			eventually(t, "goroutines and files as before the attack", patience, func() bool {
				good.quiet()
				now = readGauges(t, metrics)
				return now.goroutines <= idle.goroutines+slack && now.files <= idle.files+slack && now.body == 0
			})
			t.Logf("idle %+v, after %+v", idle, now)
		})
	}
}

// goodPushes sends good pushes at a fixed rate.
type goodPushes struct {
	t       testing.TB
	url     string
	stored  func(id string) bool
	clients []*http.Client // taken in turn
	headers []string
	sent    int
}

// measured are the p99 of good pushes beside the attack and without it, of each round.
type measured struct{ beside, alone []time.Duration }

func (m measured) ratios() []float64 {
	r := make([]float64, len(m.alone))
	for i := range r {
		r[i] = float64(m.beside[i]) / float64(m.alone[i])
	}
	return r
}

func (m measured) median() float64 {
	r := slices.Sorted(slices.Values(m.ratios()))
	return r[len(r)/2]
}

// judge fails when the median is past worseBy, in the full form, which has the machine for
// itself. The short form runs beside the tests of other packages, on a machine that may stand
// still: send finds what stops good pushes there, and nothing what slows them.
func (m measured) judge(t testing.TB) {
	t.Helper()
	if got := m.median(); hostile && got > worseBy {
		t.Errorf("good pushes have a p99 that is %.1f times that without the attack, in the median of the rounds, want at most %v", got, worseBy)
	}
}

// measure sends for all rounds. A push counts for when it was due.
func (g *goodPushes) measure() (m measured) {
	g.t.Helper()
	took := g.send(time.Duration(rounds()) * round())
	beside, alone := make([][]time.Duration, rounds()), make([][]time.Duration, rounds())
	for i, d := range took {
		due := time.Duration(i) * time.Second / goodRate
		switch in := due / round(); {
		case attackersTurn(due):
			beside[in] = append(beside[in], d)
		case !attackersTurn(max(0, due-settles())):
			alone[in] = append(alone[in], d)
		}
	}
	for i := range beside {
		m.beside = append(m.beside, p99(beside[i]).Round(10*time.Microsecond))
		m.alone = append(m.alone, p99(alone[i]).Round(10*time.Microsecond))
	}
	return m
}

// send sends for so long and gives what each push took, from when it was due: a push that
// has to wait for its turn is late.
func (g *goodPushes) send(d time.Duration) []time.Duration {
	g.t.Helper()
	n := int(d.Seconds() * goodRate)
	took := make([]time.Duration, n)
	var mu sync.Mutex
	refused := map[string]int{}
	var all sync.WaitGroup
	start := time.Now()
	for i := range n {
		due := start.Add(time.Duration(i) * time.Second / goodRate)
		<-time.After(time.Until(due))
		g.sent++
		id := fmt.Sprintf("good-%07d", g.sent)
		client := g.clients[i%len(g.clients)]
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(g.t.Context()), patience)
			defer cancel()
			a := push(ctx, client, g.url, "json", numbered(id).body(g.t), g.headers...)
			took[i] = time.Since(due)
			if a.Status == http.StatusNoContent && g.stored(id) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if a.Status != http.StatusTooManyRequests && a.Status != http.StatusServiceUnavailable {
				g.t.Errorf("a good push: %v", a)
			}
			refused[a.String()]++
		})
	}
	all.Wait()
	sum := 0
	for _, k := range refused {
		sum += k
	}
	if sum > n/50 {
		g.t.Errorf("%d of %d good pushes were not written: %v", sum, n, refused)
	}
	return took
}

// quiet ends the connections that no push uses.
func (g *goodPushes) quiet() {
	for _, c := range g.clients {
		c.CloseIdleConnections()
	}
}

func p99(took []time.Duration) time.Duration {
	took = slices.Sorted(slices.Values(took))
	return took[min(len(took)-1, len(took)*99/100)]
}

// newH2Client speaks cleartext HTTP/2 from the first byte.
func newH2Client(t testing.TB) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 2 * patience}
}

// gauges are what an attack may not leave anything in.
type gauges struct{ goroutines, files, body int }

func readGauges(t testing.TB, metrics string) gauges {
	t.Helper()
	return gauges{metric(t, metrics, "go_goroutines"), metric(t, metrics, "process_open_fds"), metric(t, metrics, "pushsink_http_body_held_bytes")}
}

// metric reads the sum of a metric's series; an absent one is 0.
func metric(t testing.TB, metrics, name string) int { return int(metricFloat(t, metrics, name)) }

func metricFloat(t testing.TB, metrics, name string) float64 {
	t.Helper()
	response, err := http.Get(metrics)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for line := range strings.Lines(string(page)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		if bare, _, _ := strings.Cut(fields[0], "{"); bare != name {
			continue
		}
		v, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		sum += v
	}
	return sum
}

// metricsURL is where the server with METRICS_PORT=0 has its metrics, from its log.
func metricsURL(t testing.TB, s *server) string {
	t.Helper()
	for line := range strings.Lines(s.proc.Output()) {
		var entry struct{ Message, Metrics string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Message == "listening" {
			return "http://127.0.0.1:" + entry.Metrics[strings.LastIndex(entry.Metrics, ":")+1:] + "/metrics"
		}
	}
	t.Fatalf("no address of the metrics in\n%s", s.proc.Output())
	return ""
}

// attackEnv makes this test binary an attacker: the server's URL, how long, the part of the
// rates, and which attacks.
const (
	attackEnv = "PUSHSINK_TEST_ATTACK"
	attackSep = "|"
)

// attackers are a process that attacks.
type attackers struct {
	cmd     *exec.Cmd
	out     bytes.Buffer
	started chan struct{}
	counts  map[string]map[string]int // by attack and outcome
}

// startAttack returns when the attackers begin their first round, which begins with a pause.
func startAttack(t testing.TB, url string, group []attack, lasts time.Duration) *attackers {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	part := 1.0
	if len(group) > 1 {
		part = together
	}
	args := []string{url, lasts.String(), fmt.Sprint(part)}
	for _, a := range group {
		args = append(args, a.name)
	}
	a := &attackers{cmd: exec.Command(self), started: make(chan struct{})}
	if nice, err := exec.LookPath("nice"); err == nil {
		a.cmd = exec.Command(nice, "-n", "19", self)
	}
	a.cmd.Env = []string{attackEnv + "=" + strings.Join(args, attackSep), "GOMAXPROCS=1", "PATH=" + os.Getenv("PATH"), "HOSTILE=" + os.Getenv("HOSTILE")}
	a.cmd.Stdout = &startedWriter{to: &a.out, started: a.started}
	a.cmd.Stderr = os.Stderr
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if a.cmd.ProcessState == nil {
			_ = a.cmd.Process.Kill()
			_ = a.cmd.Wait()
		}
	})
	select {
	case <-a.started:
	case <-time.After(patience):
		t.Fatal("the attackers do not start")
	}
	return a
}

// attackersTurn says whose turn it is, so long after the first round began.
func attackersTurn(since time.Duration) bool {
	in := since % round()
	return in >= round()/4 && in < round()*3/4
}

// startedWriter closes started with the first byte.
type startedWriter struct {
	to      *bytes.Buffer
	started chan struct{}
}

func (w *startedWriter) Write(p []byte) (int, error) {
	if w.to.Len() == 0 && len(p) > 0 {
		close(w.started)
	}
	return w.to.Write(p)
}

// end waits for the attack's end and holds its outcomes to what each attack may get.
func (a *attackers) end(t testing.TB) {
	t.Helper()
	if err := a.cmd.Wait(); err != nil {
		t.Fatalf("the attackers: %v\n%s", err, a.out.String())
	}
	if err := json.Unmarshal(bytes.TrimPrefix(a.out.Bytes(), []byte("started\n")), &a.counts); err != nil {
		t.Fatalf("the attackers said %q: %v", a.out.String(), err)
	}
	all := slices.Concat(attacks, tokenAttacks)
	for name, outcomes := range a.counts {
		i := slices.IndexFunc(all, func(x attack) bool { return x.name == name })
		tries := 0
		for outcome, n := range outcomes {
			tries += n
			if outcome != stillOpen && !slices.Contains(all[i].allowed, outcome) && !slices.Contains(late, outcome) {
				t.Errorf("%s: %d times %q, want only %q or %q", name, n, outcome, all[i].allowed, late)
			}
		}
		if tries == 0 {
			t.Errorf("%s: no try", name)
		}
	}
}

// summary is each attack's outcomes, in the order of names.
func (a *attackers) summary() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(a.counts)) {
		fmt.Fprintf(&b, "%s %v; ", name, a.counts[name])
	}
	used := a.cmd.ProcessState
	fmt.Fprintf(&b, "attackers' CPU %v", (used.UserTime() + used.SystemTime()).Round(10*time.Millisecond))
	return b.String()
}
