package v091

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lowWaterSpan of a client's stream is what its reader is woken for.
	lowWaterSpan = 250 * time.Microsecond
	// lowWaterMeasure is how long a stream is measured before it is judged.
	lowWaterMeasure = 4 * lowWaterSpan
	// lowWaterWait is how long octets below the mark may wait for company that does not come.
	lowWaterWait = time.Millisecond

	lowWaterLeast = 64       // octets: a lower mark is not worth a timer
	lowWaterMost  = 32 << 10 // octets
)

// lowWater has the socket of a busy client wake its reader for what comes in some 250 us (SO_RCVLOWAT, socket(7)), and not for each of the
// client's writes: libraries write every publish and every acknowledgement by itself, and to be woken costs both sides more than a small message
// does. The mark follows the rate, so it is lower than a client's window of unconfirmed publishes takes, and nothing for who waits for each answer.
// Whoever reads must not wait for longer than lowWaterWait while the mark is raised, and must lower it then.
type lowWater struct {
	set    func(octets int) // nil where there is no such mark
	mark   int              // 0 for none
	octets int              // that came since
	since  time.Time
}

// lowWaterOf makes the mark of a connection. Only a bare TCP connection has one: what TLS has in hand the socket does not know.
func lowWaterOf(nc net.Conn) lowWater {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return lowWater{}
	}
	return lowWater{set: func(octets int) {
		if raw, err := tcp.SyscallConn(); err == nil {
			// Where it fails the reader is woken for each write, as before.
			_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, octets) })
		}
	}}
}

// came takes note of octets that were read, and moves the mark where the stream has become faster or slower.
func (l *lowWater) came(octets int, now time.Time) {
	l.octets += octets
	took := now.Sub(l.since)
	if l.set == nil || took < lowWaterMeasure {
		return
	}
	mark := int(min(int64(l.octets)*int64(lowWaterSpan)/int64(took), lowWaterMost))
	l.octets, l.since = 0, now
	switch {
	case mark < lowWaterLeast:
		l.lower()
	case mark < l.mark || mark > 2*l.mark:
		l.mark = mark
		l.set(mark)
	}
}

// raised says whether octets may lie in the socket unnoticed.
func (l *lowWater) raised() bool { return l.mark > 0 }

// lower has the reader woken for every octet again.
func (l *lowWater) lower() {
	if l.raised() {
		l.mark = 0
		l.set(1)
	}
}
