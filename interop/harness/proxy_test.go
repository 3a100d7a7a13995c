package harness

import (
	"io"
	"net"
	"testing"
	"time"
)

// echoed dials an echo server through a proxy.
func echoed(t *testing.T) (conn net.Conn, out, in *gate) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	out, in = newGate(), newGate()
	p, err := startProxy(l.Addr().String(), out, in)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	conn, err = net.Dial("tcp", p.address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, out, in
}

func say(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := conn.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	got := make([]byte, len(text))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != text {
		t.Fatalf("heard %q (%v), want %q", got, err, text)
	}
}

func silent(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Fatalf("a byte crossed a cut (%v)", err)
	}
}

func TestCutHoldsEitherDirectionAndHealingLetsItGoOn(t *testing.T) {
	for name, pick := range map[string]func(out, in *gate) *gate{
		"out": func(out, _ *gate) *gate { return out },
		"in":  func(_, in *gate) *gate { return in },
	} {
		t.Run(name, func(t *testing.T) {
			conn, out, in := echoed(t)
			say(t, conn, "one")
			hear(t, conn, "one")
			g := pick(out, in)
			g.set(func(g *gate) { g.cut = true })
			say(t, conn, "two")
			silent(t, conn)
			g.set(func(g *gate) { g.cut = false })
			hear(t, conn, "two")
		})
	}
}

func TestDelayHoldsEachChunkThatLongAtLeast(t *testing.T) {
	conn, out, _ := echoed(t)
	out.set(func(g *gate) { g.delay = 100 * time.Millisecond })
	begin := time.Now()
	say(t, conn, "late")
	hear(t, conn, "late")
	if took := time.Since(begin); took < 100*time.Millisecond {
		t.Fatalf("came after %v", took)
	}
}

func TestClosedPeerClosesTheOtherSide(t *testing.T) {
	conn, _, _ := echoed(t)
	say(t, conn, "bye")
	hear(t, conn, "bye")
	_ = conn.(*net.TCPConn).CloseWrite()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Fatalf("got %v, want EOF", err)
	}
}
