package transport

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestTroubleIsToldWhenItChangesAndThenNowAndThenWithACount(t *testing.T) {
	var x trouble
	start := time.Unix(1000, 0)
	refused, reset := errors.New("refused"), &net.OpError{Op: "read", Source: &net.TCPAddr{Port: 4711}, Err: errors.New("reset")}
	for _, c := range []struct {
		at     time.Duration
		err    error
		say    bool
		unsaid int
	}{
		{0, refused, true, 0},
		{time.Second, refused, false, 0},
		{2 * time.Second, fmt.Errorf("no welcome: %w", reset), true, 1}, // another cause
		{3 * time.Second, refused, false, 0},
		{4 * time.Second, &net.OpError{Op: "read", Source: &net.TCPAddr{Port: 4712}, Err: errors.New("reset")}, false, 0}, // from another port
		{tellEvery - 1, refused, false, 0},
		{tellEvery, refused, true, 3},
		{tellEvery + 1, refused, false, 0},
	} {
		if unsaid, say := x.tell(c.err, start.Add(c.at)); say != c.say || unsaid != c.unsaid {
			t.Errorf("at %v of %v: told %v after %d, not %v after %d", c.at, c.err, say, unsaid, c.say, c.unsaid)
		}
	}
	x.over(start.Add(tellEvery + soundAfter - 1))
	if _, say := x.tell(refused, start.Add(tellEvery+soundAfter-1)); say {
		t.Error("what was told of the other connection a moment ago is told again")
	}
	x.over(start.Add(tellEvery + soundAfter))
	if unsaid, say := x.tell(refused, start.Add(tellEvery+soundAfter)); !say || unsaid != 0 {
		t.Error("what fails after all was well is not news")
	}
}

func TestPeerThatIsNotUpYetIsNoTroubleForAMoment(t *testing.T) {
	start := time.Unix(1000, 0)
	refused := &net.OpError{Op: "dial", Err: errors.New("refused")}
	for _, c := range []struct {
		at  time.Duration
		err error
		say bool
	}{
		{0, refused, false},
		{upWithin - 1, refused, false},
		{upWithin - 1, errors.New("another cluster"), true}, // it is up
		{upWithin, refused, true},
	} {
		x := trouble{begun: start}
		if _, say := x.tell(c.err, start.Add(c.at)); say != c.say {
			t.Errorf("after %v of %v: told %v", c.at, c.err, say)
		}
	}
}

func TestConnectionIsToldOfOnceAfterATroubleThatWas(t *testing.T) {
	var x trouble
	if x.connected() {
		t.Error("a first connection is told of")
	}
	x.tell(errors.New("refused"), time.Unix(1000, 0))
	if !x.connected() || x.connected() {
		t.Error("the connection after a trouble is not told of, or twice")
	}
}

func TestPeerThatComesBackIsToldOf(t *testing.T) {
	a, b := pair(t, nil)
	a.send(t, Frame{Kind: Batch})
	address := b.Addr().String()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the loss is told", func() bool { return strings.Contains(a.logged(), "no connection to a peer") })
	c := newEnd(2)
	c.opts.Listen = address
	c.start(t)
	eventually(t, "the return is told", func() bool { return strings.Contains(a.logged(), "connected to a peer again") })
}

func TestCausesThatAlwaysDifferAreToldAFewTimesOnly(t *testing.T) {
	var x trouble
	told := 0
	for i := range 1000 {
		if _, say := x.tell(fmt.Errorf("failure %d", i), time.Unix(0, int64(i))); say {
			told++
		}
	}
	if told != causesMost || len(x.told) != causesMost {
		t.Errorf("%d of 1000 causes are told, %d remembered", told, len(x.told))
	}
}

func TestPeerThatHangsUpAtEachAttemptIsToldOfOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	var attempts atomic.Int64
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			attempts.Add(1)
			_ = conn.(*net.TCPConn).SetLinger(0) // a reset: the error names the port that the attempt was made from
			_ = conn.Close()
		}
	}()
	a := newEnd(1)
	a.start(t)
	a.SetPeer(2, l.Addr().String())
	eventually(t, "some attempts", func() bool { return attempts.Load() > 8 })
	// The reset comes while the hello is written or while the welcome is awaited.
	if n := strings.Count(a.logged(), "no connection to a peer"); n == 0 || n > causesMost {
		t.Errorf("told %d times of %d attempts:\n%s", n, attempts.Load(), a.logged())
	}
}

func TestRefusedPeerIsToldOfOnceWhereItKnocks(t *testing.T) {
	var knocks atomic.Int64
	_, b := pair(t, func(_, b *end) {
		b.opts.Admit = func(Hello) error {
			knocks.Add(1)
			return errors.New("node 1 is a stranger")
		}
	})
	eventually(t, "some attempts", func() bool { return knocks.Load() > 6 })
	if n := strings.Count(b.logged(), "a peer's connection ends"); n != 1 {
		t.Errorf("told %d times of %d attempts:\n%s", n, knocks.Load(), b.logged())
	}
}

func TestPeersWhoseTroublesAreToldApartAreBounded(t *testing.T) {
	a := newEnd(1)
	a.start(t)
	for id := range uint64(10 * troublesMost) {
		a.knocking(id + 1)
	}
	if n := len(a.troubles); n > troublesMost+1 {
		t.Errorf("%d peers are remembered", n)
	}
}
