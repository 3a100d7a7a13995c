package rawclient

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Tap is an io.Writer that is given one direction of a connection as it passes and says a line for each whole frame: the
// channel, and the method with its arguments, the size of the content or the begin of its octets. At what is no frame it
// says so and falls silent; it never fails, so it can stand beside a connection without being a part of it.
type Tap struct {
	Say     func(line string)
	rest    []byte // a frame whose end has not passed yet
	foreign bool
}

func (t *Tap) Write(b []byte) (int, error) {
	if !t.foreign {
		t.rest = append(t.rest, b...)
		for t.next() {
		}
	}
	return len(b), nil
}

// next says the first frame of the rest; false if that is not whole.
func (t *Tap) next() bool {
	const head, greeting = 7, 8 // octets; a protocol header is as long as the shortest frame
	if len(t.rest) < greeting {
		return false
	}
	if bytes.HasPrefix(t.rest, []byte("AMQP")) {
		return t.said(greeting, fmt.Sprintf("%q", t.rest[:greeting]))
	}
	kind, channel, size := t.rest[0], binary.BigEndian.Uint16(t.rest[1:]), int(binary.BigEndian.Uint32(t.rest[3:]))
	switch {
	case kind == 0 || kind > frameHeartbeat || size > frameBytesMax:
		t.foreign = true
		return t.said(len(t.rest), fmt.Sprintf("no frame: % x", t.rest[:greeting]))
	case len(t.rest) <= head+size:
		return false
	}
	return t.said(head+size+1, fmt.Sprintf("%d %s", channel, told(kind, t.rest[head:head+size])))
}

func (t *Tap) said(octets int, line string) bool {
	t.Say(line)
	t.rest = t.rest[octets:]
	return true
}

// told is a frame's payload in words.
func told(kind byte, payload []byte) string {
	switch {
	case kind == frameMethod && len(payload) >= 4:
		m := methodOf(payload)
		if l, known := layouts[names[m]]; known {
			return called(names[m], decode(&cursor{b: payload[4:]}, l.arguments))
		}
		return fmt.Sprintf("method %d.%d", m.class, m.id)
	case kind == frameHeader && len(payload) >= 12:
		return fmt.Sprintf("header of %d octets", binary.BigEndian.Uint64(payload[4:]))
	case kind == frameBody:
		return fmt.Sprintf("body %.60q", payload)
	case kind == frameHeartbeat:
		return "heartbeat"
	}
	return fmt.Sprintf("frame of type %d with %d octets", kind, len(payload))
}
