package rawclient

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// Frames is a connection on which nothing happens by itself: each method and each octet is the caller's. What comes is
// read as events, a message with its content as one.
type Frames struct {
	nc       net.Conn
	r        *bufio.Reader
	FrameMax int           // octets of the largest frame, as agreed on; a larger one that comes is an error
	Patience time.Duration // bounds every read and write
}

// Handshake is what a client says of itself before the connection is open.
type Handshake struct {
	Properties Table // client properties
	ChannelMax int   // 0 for what the server proposes
	FrameMax   int   // octets, 0 for what the server proposes
	Heartbeat  int   // seconds, 0 for none
}

// Event is a method that came, with its content if it has any, a heartbeat, or the end of the connection.
type Event struct {
	Channel    uint16
	Name       string // queue.declare-ok, heartbeat, end
	Arguments  []any  // uint64, string, bool, Table; reserved ones are left out
	Properties Properties
	Body       []byte
}

// DialBare connects and sends nothing.
func DialBare(amqpURL string) (*Frames, error) {
	u, err := url.Parse(amqpURL)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	nc, err := net.DialTimeout("tcp", u.Host, 10*time.Second)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	return &Frames{nc: nc, r: bufio.NewReaderSize(nc, 256<<10), FrameMax: frameBytesMax, Patience: time.Minute}, nil
}

// DialFrames connects to an amqp:// URL, opens the connection and no channel.
func DialFrames(amqpURL string, h Handshake) (*Frames, error) {
	f, err := DialBare(amqpURL)
	if err != nil {
		return nil, err
	}
	if err := f.open(amqpURL, h); err != nil {
		return nil, errors.Join(fmt.Errorf("dial: %w", err), f.Close())
	}
	return f, nil
}

func (f *Frames) open(amqpURL string, h Handshake) error {
	tune, err := f.Login(amqpURL, h.Properties)
	if err != nil {
		return err
	}
	f.FrameMax = cmp.Or(h.FrameMax, int(tune.Number(1)))
	if err := f.Send(0, "connection.tune-ok", cmp.Or(h.ChannelMax, int(tune.Number(0))), f.FrameMax, h.Heartbeat); err != nil {
		return err
	}
	_, err = f.Call("connection.open-ok", 0, "connection.open", vhostOf(amqpURL))
	return err
}

func vhostOf(amqpURL string) string {
	u, err := url.Parse(amqpURL)
	if err != nil || strings.Trim(u.Path, "/") == "" {
		return "/"
	}
	return strings.TrimPrefix(u.Path, "/")
}

// Login goes as far as connection.tune, which it answers.
func (f *Frames) Login(amqpURL string, properties Table) (tune *Event, err error) {
	u, err := url.Parse(amqpURL)
	if err != nil {
		return nil, err
	}
	password, _ := u.User.Password()
	if err := f.Write([]byte("AMQP\x00\x00\x09\x01")); err != nil {
		return nil, err
	}
	if _, err := f.expect("connection.start"); err != nil {
		return nil, err
	}
	return f.Call("connection.tune", 0, "connection.start-ok", properties, "PLAIN", "\x00"+u.User.Username()+"\x00"+password, "en_US")
}

// Close cuts the connection.
func (f *Frames) Close() error { return f.nc.Close() }

// Write sends octets as they are.
func (f *Frames) Write(b []byte) error {
	_ = f.nc.SetWriteDeadline(time.Now().Add(f.Patience))
	_, err := f.nc.Write(b)
	return err
}

// Send sends a method. Arguments are int, uint64, string, bool and Table, without the reserved ones; those at the end
// that are left out are zero.
func (f *Frames) Send(channel uint16, name string, arguments ...any) error {
	return f.Write(AppendCall(nil, channel, name, arguments...))
}

// Call sends a method and reads its reply; anything else that comes is an error.
func (f *Frames) Call(reply string, channel uint16, name string, arguments ...any) (*Event, error) {
	if err := f.Send(channel, name, arguments...); err != nil {
		return nil, err
	}
	return f.expect(reply)
}

func (f *Frames) expect(name string) (*Event, error) {
	e, err := f.Next()
	if err == nil && e.Name != name {
		err = fmt.Errorf("%s came, not %s", e, name)
	}
	return e, err
}

// AppendCall appends a method's frame; the arguments are those of Send.
func AppendCall(b []byte, channel uint16, name string, arguments ...any) []byte {
	l, ok := layouts[name]
	if !ok {
		panic("no method " + name)
	}
	return appendMethod(b, channel, method{l.class, l.id}, encode(l.arguments, arguments))
}

// encode is a method's arguments; bits that follow each other share an octet.
func encode(kinds string, arguments []any) (b []byte) {
	place := 0 // of the next bit in the last octet
	for _, kind := range kinds {
		var v any
		if !strings.ContainsRune("rzi", kind) && len(arguments) > 0 {
			v, arguments = arguments[0], arguments[1:]
		}
		if kind == 'b' || kind == 'i' {
			if place%8 == 0 {
				b = append(b, 0)
			}
			set, _ := v.(bool)
			b[len(b)-1] |= bit(set) << (place % 8)
			place++
			continue
		}
		place = 0
		b = appendArgument(b, kind, v)
	}
	return b
}

func appendArgument(b []byte, kind rune, v any) []byte {
	n, _ := v.(uint64)
	if i, ok := v.(int); ok {
		n = uint64(i)
	}
	s, _ := v.(string)
	switch kind {
	case 'o':
		return append(b, byte(n))
	case 'h', 'r':
		return binary.BigEndian.AppendUint16(b, uint16(n))
	case 'l':
		return binary.BigEndian.AppendUint32(b, uint32(n))
	case 'q':
		return binary.BigEndian.AppendUint64(b, n)
	case 's', 'z':
		return append(b, short(s)...)
	case 'S':
		return append(b, long(s)...)
	default: // t
		t, _ := v.(Table)
		return AppendTable(b, t)
	}
}

// AppendContent appends a header frame and the body in frames of at most frameMax octets.
func AppendContent(b []byte, channel uint16, frameMax int, p *Properties, body []byte) []byte {
	header := binary.BigEndian.AppendUint64([]byte{0, 60, 0, 0}, uint64(len(body)))
	b = AppendFrame(b, frameHeader, channel, p.Append(header))
	for len(body) > 0 {
		n := min(len(body), frameMax-8)
		b = AppendFrame(b, frameBody, channel, body[:n])
		body = body[n:]
	}
	return b
}

// AppendFrame appends a frame of any type: 1 method, 2 header, 3 body, 8 heartbeat.
func AppendFrame(b []byte, kind byte, channel uint16, payload []byte) []byte {
	return append(append(appendHead(b, kind, channel, len(payload)), payload...), frameEnd)
}

// Next reads the next event. A connection that ended is an event as well; nothing within Patience is an error.
func (f *Frames) Next() (*Event, error) {
	_ = f.nc.SetReadDeadline(time.Now().Add(f.Patience))
	kind, channel, p, err := f.read()
	switch {
	case errors.Is(err, io.EOF) || isReset(err):
		return &Event{Name: "end"}, nil
	case err != nil:
		return nil, fmt.Errorf("waiting for a frame: %w", err)
	case kind == frameHeartbeat:
		return &Event{Channel: channel, Name: "heartbeat"}, nil
	case kind != frameMethod || len(p) < 4:
		return nil, fmt.Errorf("a frame of type %d came, not a method", kind)
	}
	m := methodOf(p)
	e := &Event{Channel: channel, Name: names[m]}
	l, ok := layouts[e.Name]
	if !ok {
		return nil, fmt.Errorf("unknown method %d.%d", m.class, m.id)
	}
	c := &cursor{b: p[4:]}
	e.Arguments = decode(c, l.arguments)
	if c.err == nil && l.content {
		c.err = f.content(e)
	}
	return e, c.err
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func decode(c *cursor, kinds string) (list []any) {
	place, octet := 0, byte(0)
	for _, kind := range kinds {
		if kind != 'b' && kind != 'i' {
			place = 0
		}
		switch kind {
		case 'r':
			c.u16()
		case 'o':
			list = append(list, uint64(c.u8()))
		case 'h':
			list = append(list, uint64(c.u16()))
		case 'l':
			list = append(list, uint64(c.u32()))
		case 'q':
			list = append(list, c.u64())
		case 's':
			list = append(list, c.short())
		case 'z':
			c.short()
		case 'S':
			list = append(list, string(c.octets()))
		case 't':
			list = append(list, c.table())
		case 'b', 'i':
			if place%8 == 0 {
				octet = c.u8()
			}
			if kind == 'b' {
				list = append(list, octet>>(place%8)&1 == 1)
			}
			place++
		}
	}
	return list
}

// content reads the header and body frames of a message.
func (f *Frames) content(e *Event) error {
	kind, channel, p, err := f.read()
	if err != nil || kind != frameHeader || channel != e.Channel || len(p) < 14 {
		return errors.Join(fmt.Errorf("a frame of type %d on channel %d came, not a header on %d", kind, channel, e.Channel), err)
	}
	size := binary.BigEndian.Uint64(p[4:])
	c := &cursor{b: p[12:]}
	e.Properties.parse(c)
	for c.err == nil && uint64(len(e.Body)) < size {
		kind, channel, p, err = f.read()
		if err != nil || kind != frameBody || channel != e.Channel || len(p) == 0 {
			return errors.Join(fmt.Errorf("a frame of type %d on channel %d came with %d octets, not a body on %d", kind, channel, len(p), e.Channel), err)
		}
		e.Body = append(e.Body, p...)
	}
	return c.err
}

// read reads one frame; its payload is its own.
func (f *Frames) read() (kind byte, channel uint16, payload []byte, err error) {
	var head [7]byte
	if _, err = io.ReadFull(f.r, head[:]); err != nil {
		return 0, 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[3:])
	if size+8 > uint32(f.FrameMax) {
		return 0, 0, nil, fmt.Errorf("a frame of %d octets came where %d were agreed on", size+8, f.FrameMax)
	}
	p := make([]byte, size+1)
	if _, err = io.ReadFull(f.r, p); err == nil && p[size] != frameEnd {
		err = errors.New("a frame without its end")
	}
	return head[0], binary.BigEndian.Uint16(head[1:]), p[:size], err
}

// ReadRaw reads up to n octets as they come, for what is not a frame; at the connection's end it answers what came.
func (f *Frames) ReadRaw(n int) ([]byte, error) {
	_ = f.nc.SetReadDeadline(time.Now().Add(f.Patience))
	b := make([]byte, n)
	n, err := io.ReadFull(f.r, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isReset(err) {
		err = nil
	}
	return b[:n], err
}

// String is the event as a line: name, arguments, and the body of a message.
func (e *Event) String() string {
	line := called(e.Name, e.Arguments)
	if l := layouts[e.Name]; l.content {
		line += fmt.Sprintf(" %.60q", e.Body)
	}
	return line
}

// called is a method with its arguments as a line.
func called(name string, arguments []any) string {
	for _, a := range arguments {
		name += fmt.Sprintf(" %v", a)
	}
	return name
}

// Text is the i-th argument, reserved ones not counted.
func (e *Event) Text(i int) string { s, _ := e.Arguments[i].(string); return s }

// Number is the i-th argument.
func (e *Event) Number(i int) uint64 { n, _ := e.Arguments[i].(uint64); return n }
