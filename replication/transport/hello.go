package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// magic begins every connection, so that a client that has come to the wrong port is told apart at once.
const magic = "USPEER\r\n"

// version is the protocol's. A peer of another one is refused.
const version = 1

const (
	handshakeTime = 5 * time.Second
	helloBytes    = 4096
)

// role is what a connection is for.
type role uint8

const (
	roleBulk role = iota
	roleUrgent
	roleStream
)

// Hello is how a node introduces itself on a connection.
type Hello struct {
	Cluster  string // its cluster's UUID, "" while forming
	From, To uint64
	Address  string // where the sender listens
	Fresh    bool   // the sender has no data
	role     role
}

// ErrRefused is what a refusal at the hello wraps.
var ErrRefused = errors.New("refused")

func (h *Hello) encode() []byte {
	b := []byte{version, byte(h.role), 0}
	if h.Fresh {
		b[2] = 1
	}
	b = binary.BigEndian.AppendUint64(b, h.From)
	b = binary.BigEndian.AppendUint64(b, h.To)
	b = binary.AppendUvarint(b, uint64(len(h.Cluster)))
	b = append(b, h.Cluster...)
	return append(b, h.Address...)
}

func decodeHello(b []byte) (Hello, error) {
	if len(b) == 0 {
		return Hello{}, fmt.Errorf("%w: an empty hello", ErrRefused)
	}
	if b[0] != version {
		return Hello{}, fmt.Errorf("%w: the peer speaks version %d of the protocol, this node %d: upgrade one step at a time", ErrRefused, b[0], version)
	}
	if len(b) < 20 {
		return Hello{}, fmt.Errorf("%w: a short hello", ErrRefused)
	}
	h := Hello{role: role(b[1]), Fresh: b[2] != 0, From: binary.BigEndian.Uint64(b[3:]), To: binary.BigEndian.Uint64(b[11:])}
	n, w := binary.Uvarint(b[19:])
	if w <= 0 || n > uint64(len(b)-19-w) || h.role > roleStream {
		return Hello{}, fmt.Errorf("%w: a malformed hello", ErrRefused)
	}
	rest := b[19+w:]
	h.Cluster, h.Address = string(rest[:n]), string(rest[n:])
	return h, nil
}

// judge says why a hello is refused. Two that both know their cluster must agree on it; while one is forming it takes
// the other's word. What members and data have to do with it is Admit's to say.
func (t *Transport) judge(h *Hello) error {
	if h.To != t.opts.Self {
		return fmt.Errorf("%w: this is node %d, the peer (node %d) looked for node %d: check the members' addresses", ErrRefused, t.opts.Self, h.From, h.To)
	}
	if h.From == t.opts.Self || h.From == 0 {
		return fmt.Errorf("%w: the peer calls itself node %d, as this node does: give each node an id of its own", ErrRefused, h.From)
	}
	if own := t.opts.ClusterID(); own != "" && h.Cluster != "" && own != h.Cluster {
		return fmt.Errorf("%w: node %d is of cluster %s, this node of cluster %s", ErrRefused, h.From, h.Cluster, own)
	}
	if err := t.opts.Admit(*h); err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return nil
}

// greet opens an outgoing connection: our hello, then the peer's or its refusal.
func (t *Transport) greet(conn net.Conn, to uint64, r role) (*frameReader, error) {
	if err := conn.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, magic); err != nil {
		return nil, err
	}
	if err := writeFrame(conn, Frame{Kind: kindHello, Payload: t.hello(to, r)}); err != nil {
		return nil, err
	}
	fr := newFrameReader(conn)
	fr.most = helloBytes
	f, err := fr.next()
	if err != nil {
		return nil, fmt.Errorf("no welcome: %w", err)
	}
	switch f.Kind {
	case kindHello: // its welcome: the peer is judged as it has judged us
		peer, err := decodeHello(f.Payload)
		if err == nil && peer.From != to {
			err = fmt.Errorf("%w: the peer is node %d, not node %d", ErrRefused, peer.From, to)
		}
		if err == nil {
			err = t.judge(&peer)
		}
		if err != nil {
			return nil, err
		}
		return fr, conn.SetDeadline(time.Time{})
	case kindRefusal:
		return nil, fmt.Errorf("the peer says: %s", f.Payload)
	}
	return nil, fmt.Errorf("no welcome: %w", errUnexpected)
}

// hello is this node's.
func (t *Transport) hello(to uint64, r role) []byte {
	h := Hello{Cluster: t.opts.ClusterID(), From: t.opts.Self, To: to, Address: t.opts.Advertise, Fresh: t.opts.Fresh(), role: r}
	return h.encode()
}

// receive opens an incoming connection.
func (t *Transport) receive(conn net.Conn) (Hello, *frameReader, error) {
	if err := conn.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return Hello{}, nil, err
	}
	var m [len(magic)]byte
	if _, err := io.ReadFull(conn, m[:]); err != nil {
		return Hello{}, nil, err
	}
	if string(m[:]) != magic {
		return Hello{}, nil, errors.New("not a peer: this port is for nodes of the cluster")
	}
	fr := newFrameReader(conn)
	fr.most = helloBytes
	f, err := fr.next()
	if err != nil {
		return Hello{}, nil, err
	}
	if f.Kind != kindHello {
		return Hello{}, nil, errUnexpected
	}
	h, err := decodeHello(f.Payload)
	if err == nil {
		err = t.judge(&h)
	}
	if err != nil {
		_ = writeFrame(conn, Frame{Kind: kindRefusal, Payload: []byte(err.Error())})
		return h, nil, err
	}
	fr.most = frameBytesMost
	return h, fr, writeFrame(conn, Frame{Kind: kindHello, Payload: t.hello(h.From, h.role)})
}
