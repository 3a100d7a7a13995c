package resume

import (
	"encoding/binary"
	"net"
	"strings"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The methods that a tap listens for: class and method of AMQP 0-9-1.
const (
	methodOpenOk = 10<<16 | 41
	methodClose  = 10<<16 | 50
	// listenBytes is how much of a frame's payload the longest of them can have that is of interest.
	listenBytes = 4 + 2 + 1 + 255
)

// tap is a client's connection that takes note of what the library does not hand on: the hosts in connection.open-ok, and the
// reason of a connection.close that follows it at once.
type tap struct {
	net.Conn
	head    []byte // of the frame at hand: header and up to listenBytes of payload
	left    int    // bytes of the frame that are still to come
	mu      sync.Mutex
	hosts   []string
	refusal *amqp.Error
}

// Read implements net.Conn.
func (t *tap) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	t.listen(b[:n])
	return n, err
}

const frameHeader = 7

func (t *tap) listen(b []byte) {
	for len(b) > 0 {
		if t.left == 0 {
			k := min(frameHeader-len(t.head), len(b))
			t.head, b = append(t.head, b[:k]...), b[k:]
			if len(t.head) < frameHeader {
				return
			}
			t.left = int(binary.BigEndian.Uint32(t.head[3:])) + 1 // its end octet
		}
		k := min(t.left, len(b))
		if kept := len(t.head); kept < frameHeader+listenBytes {
			t.head = append(t.head, b[:min(k, frameHeader+listenBytes-kept)]...)
		}
		t.left -= k
		b = b[k:]
		if t.left == 0 {
			t.frame(t.head)
			t.head = t.head[:0]
		}
	}
}

// frame looks at the beginning of a frame.
func (t *tap) frame(f []byte) {
	if f[0] != 1 || f[1]|f[2] != 0 || len(f) < frameHeader+4 { // a method of channel 0
		return
	}
	args := f[frameHeader+4:]
	t.mu.Lock()
	defer t.mu.Unlock()
	switch binary.BigEndian.Uint32(f[frameHeader:]) {
	case methodOpenOk:
		if text := shortString(args); text != "" {
			t.hosts = strings.Split(text, ",")
		}
	case methodClose:
		if len(args) > 2 {
			t.refusal = &amqp.Error{Code: int(binary.BigEndian.Uint16(args)), Reason: shortString(args[2:]), Server: true}
		}
	}
}

func shortString(b []byte) string {
	if len(b) == 0 || int(b[0]) >= len(b) {
		return ""
	}
	return string(b[1 : 1+int(b[0])])
}

// heard answers what was noted.
func (t *tap) heard() (hosts []string, refusal *amqp.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hosts, t.refusal
}
