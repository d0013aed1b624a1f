package load

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pushsink/pushsink/bench/reading"
)

// loop drives all connections from one thread with epoll: a goroutine for each would cost
// several times as much, at the expense of the server beside it.
type loop struct {
	*Run
	epoll, timer int
	server       *unix.SockaddrInet4
	conns        []conn
	// free are the connections of the open loop without a request. The one that was used
	// longest ago is first: servers close connections on which no request comes soon.
	free        []int
	backlog     []time.Duration // when the requests that found none were to be sent
	waiting     int             // of backlog, from here on
	open        int             // requests without an answer
	seq         int64
	start       time.Time
	rand        *rand.Rand
	next        time.Duration // when the next request of the open loop is to be sent
	armed       time.Duration // what the timer is set to
	phase       phase
	windowBegan time.Time
}

type phase int

const (
	warming phase = iota
	measuring
	draining
)

// conn is a connection with at most one request.
type conn struct {
	fd       int    // -1 = closed by the server while it had no request
	wire     []byte // the request
	sent     int    // of wire
	waitsOut bool   // registered for writing as well
	busy     bool
	due      time.Duration // when the request was to be sent
	in       []byte
	have     int // bytes in in
}

const timerEvent = -1

func newLoop(r *Run) (*loop, error) {
	l := &loop{Run: r, epoll: -1, timer: -1, seq: reading.FirstSeq + r.o.Seq, rand: rand.New(rand.NewPCG(1, 2))}
	var err error
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if err := l.connect(); err != nil {
		l.close()
		return nil, fmt.Errorf("load: %w", err)
	}
	l.result.Latencies = make([]time.Duration, 0, 1<<16)
	return l, nil
}

func (l *loop) connect() (err error) {
	if l.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return err
	}
	if err := l.watch(unix.EPOLL_CTL_ADD, l.timer, timerEvent, unix.EPOLLIN); err != nil {
		return err
	}
	to, err := net.ResolveTCPAddr("tcp4", l.o.Addr)
	if err != nil {
		return err
	}
	l.server = &unix.SockaddrInet4{Port: to.Port, Addr: [4]byte(to.IP.To4())}
	for i := range l.o.Connections {
		l.conns = append(l.conns, conn{fd: -1, wire: clone(l.template), in: make([]byte, 4096)})
		if err := l.dial(i); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		l.free = append(l.free, i)
	}
	return nil
}

// dial opens connection i.
func (l *loop) dial(i int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	l.conns[i].fd = fd // close closes it from here on
	return errors.Join(
		unix.Connect(fd, l.server),
		unix.SetNonblock(fd, true),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		l.watch(unix.EPOLL_CTL_ADD, fd, i, unix.EPOLLIN),
	)
}

func (l *loop) watch(op, fd, index int, events uint32) error {
	return unix.EpollCtl(l.epoll, op, fd, &unix.EpollEvent{Events: events, Fd: int32(index)})
}

func (l *loop) close() {
	for _, c := range l.conns {
		if c.fd >= 0 {
			_ = unix.Close(c.fd)
		}
	}
	if l.timer >= 0 {
		_ = unix.Close(l.timer)
	}
	_ = unix.Close(l.epoll)
}

func (l *loop) run() error {
	l.start = time.Now()
	if l.o.Rate > 0 {
		l.next = l.gap()
	} else {
		for i := range l.conns {
			if err := l.send(i, 0); err != nil {
				return err
			}
		}
	}
	events := make([]unix.EpollEvent, 512)
	for {
		over, err := l.tick()
		if over || err != nil {
			return err
		}
		n, err := unix.EpollWait(l.epoll, events, -1)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		for _, e := range events[:n] {
			if e.Fd == timerEvent {
				var b [8]byte
				_, _ = unix.Read(l.timer, b[:])
				l.armed = 0
				continue
			}
			if err := l.ready(int(e.Fd), e.Events); err != nil {
				return err
			}
		}
	}
}

func (l *loop) gap() time.Duration {
	return time.Duration(l.rand.ExpFloat64() / l.o.Rate * float64(time.Second))
}

// tick does what is due, and sets the timer to what is due next. over = the run has ended.
func (l *loop) tick() (over bool, err error) {
	windowEnd := l.o.Warm + l.o.Measure
	now := time.Since(l.start)
	if l.phase == warming && now >= l.o.Warm {
		l.phase, l.windowBegan = measuring, time.Now()
		l.result.InWindow = -l.okRecords.Load()
		close(l.began)
	}
	for l.o.Rate > 0 && l.next <= now && l.next < windowEnd {
		if err := l.dispatch(l.next); err != nil {
			return false, err
		}
		l.next += l.gap()
	}
	if l.phase == measuring && now >= windowEnd {
		l.phase = draining
		l.result.Window = time.Since(l.windowBegan)
		l.result.InWindow += l.okRecords.Load()
		close(l.ended)
	}
	giveUp := windowEnd + l.o.Patience
	unsent := len(l.backlog) - l.waiting
	switch {
	case l.phase != draining:
	case l.open == 0 && unsent == 0:
		return true, nil
	case now >= giveUp:
		l.result.Failed[0] += int64(l.open + unsent)
		return true, nil
	}
	due := giveUp
	switch l.phase {
	case warming:
		due = l.o.Warm
	case measuring:
		due = windowEnd
	}
	if l.o.Rate > 0 && l.next < windowEnd {
		due = min(due, l.next)
	}
	return false, l.arm(due)
}

// arm makes the timer fire at due.
func (l *loop) arm(due time.Duration) error {
	if due == l.armed {
		return nil
	}
	l.armed = due
	left := max(time.Until(l.start.Add(due)), 1)
	return unix.TimerfdSettime(l.timer, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(left.Nanoseconds())}, nil)
}

// dispatch sends the request that is due on a free connection, or keeps it.
func (l *loop) dispatch(due time.Duration) error {
	if len(l.free) > 0 {
		i := l.free[0]
		l.free = l.free[1:]
		return l.send(i, due)
	}
	l.backlog = append(l.backlog, due)
	return nil
}

func (l *loop) send(i int, due time.Duration) error {
	c := &l.conns[i]
	if c.fd < 0 {
		if err := l.dial(i); err != nil {
			return fmt.Errorf("load: a new connection: %w", err)
		}
	}
	l.seq = l.template.number(c.wire, l.seq)
	c.sent, c.due, c.busy = 0, due, true
	l.open++
	return l.write(i)
}

func (l *loop) write(i int) error {
	c := &l.conns[i]
	for c.sent < len(c.wire) {
		n, err := unix.Write(c.fd, c.wire[c.sent:])
		switch err {
		case nil:
			c.sent += n
		case unix.EINTR:
		case unix.EAGAIN:
			if c.waitsOut {
				return nil
			}
			c.waitsOut = true
			return l.watch(unix.EPOLL_CTL_MOD, c.fd, i, unix.EPOLLIN|unix.EPOLLOUT)
		default:
			return fmt.Errorf("load: write: %w", err)
		}
	}
	if !c.waitsOut {
		return nil
	}
	c.waitsOut = false
	return l.watch(unix.EPOLL_CTL_MOD, c.fd, i, unix.EPOLLIN)
}

func (l *loop) ready(i int, events uint32) error {
	c := &l.conns[i]
	if events&unix.EPOLLOUT != 0 {
		if err := l.write(i); err != nil {
			return err
		}
	}
	if events&^uint32(unix.EPOLLOUT) == 0 {
		return nil
	}
	if c.have == len(c.in) {
		c.in = append(c.in, make([]byte, len(c.in))...)
	}
	n, err := unix.Read(c.fd, c.in[c.have:])
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return nil
	case !c.busy && (n == 0 || err != nil):
		// A server may close what is not used. The next request opens it anew.
		_ = unix.Close(c.fd)
		c.fd, c.waitsOut = -1, false
		return nil
	case err != nil:
		return fmt.Errorf("load: read: %w", err)
	case n == 0:
		return errors.New("load: the server closed a connection")
	case !c.busy:
		return errors.New("load: the server sent what nobody asked for")
	}
	c.have += n
	status, size, err := parseAnswer(c.in[:c.have])
	if err != nil {
		return err
	}
	if size == 0 {
		return nil
	}
	if size != c.have || c.sent < len(c.wire) {
		return fmt.Errorf("load: an answer (%d) that its request does not explain", status)
	}
	c.have, c.busy = 0, false
	return l.answered(i, status)
}

// answered counts the answer to connection i's request, and sends the next.
func (l *loop) answered(i, status int) error {
	c := &l.conns[i]
	l.open--
	now := time.Since(l.start)
	windowEnd := l.o.Warm + l.o.Measure
	if status >= 200 && status < 300 {
		l.result.OK++
		l.result.Records += int64(l.template.records)
		l.okRecords.Add(int64(l.template.records))
		if c.due >= l.o.Warm && c.due < windowEnd {
			l.result.Latencies = append(l.result.Latencies, now-c.due)
		}
	} else {
		l.result.Failed[status]++
	}
	switch {
	case l.waiting < len(l.backlog):
		due := l.backlog[l.waiting]
		l.waiting++
		return l.send(i, due)
	case l.o.Rate > 0:
		l.free = append(l.free, i)
	case l.phase != draining && now < windowEnd:
		return l.send(i, now)
	}
	return nil
}
