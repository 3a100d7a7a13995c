package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The frame types.
const (
	FrameMethod    = 1
	FrameHeader    = 2
	FrameBody      = 3
	FrameHeartbeat = 8
)

const (
	frameEnd = 0xCE
	// FrameOverhead is how many octets a frame has around its payload: type, channel, size and end.
	FrameOverhead = 8
	frameHead     = 7
	// FrameMaxMin is the smallest frame_max that a peer may ask for (specification 4.2.3, frame-min-size).
	FrameMaxMin = 4096
)

// Frame is one frame. Payload is a view.
type Frame struct {
	Type    uint8
	Channel uint16
	Payload []byte
}

// ErrFrameSize, ErrFrameEnd and ErrFrameType are what a *FrameError can be.
var (
	ErrFrameSize = errors.New("frame too large")
	ErrFrameEnd  = errors.New("wrong end octet")
	ErrFrameType = errors.New("unknown frame type")
)

// FrameError says why octets are no frame. The stream is out of step after it.
type FrameError struct {
	Err  error
	Type uint8
	Size uint32 // announced, of the payload
	Max  uint32 // allowed, of the payload
	End  uint8  // the octet in place of the end
}

func (e *FrameError) Error() string {
	switch e.Err {
	case ErrFrameSize:
		return fmt.Sprintf("type %d, all octets = <<>>: {frame_too_large,%d,%d}", e.Type, e.Size, e.Max)
	case ErrFrameEnd:
		return fmt.Sprintf("type %d, all octets = <<>>: {invalid_frame_end_marker,%d}", e.Type, e.End)
	}
	return fmt.Sprintf("type %d, all octets = <<>>: {unknown_frame_type,%d}", e.Type, e.Type)
}

func (e *FrameError) Unwrap() error { return e.Err }

// Parse reads the frame at the start of b, and answers how many octets it takes: 0 if it is not complete yet. A payload
// of more than max octets is refused as soon as its size is there. Errors: *FrameError.
func Parse(b []byte, max uint32, f *Frame) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	switch f.Type = b[0]; f.Type {
	case FrameMethod, FrameHeader, FrameBody, FrameHeartbeat:
	default:
		return 0, &FrameError{Err: ErrFrameType, Type: b[0]}
	}
	if len(b) < frameHead {
		return 0, nil
	}
	f.Channel = binary.BigEndian.Uint16(b[1:])
	size := binary.BigEndian.Uint32(b[3:])
	if size > max {
		return 0, &FrameError{Err: ErrFrameSize, Type: f.Type, Size: size, Max: max}
	}
	n = int(size) + FrameOverhead
	if len(b) < n {
		return 0, nil
	}
	if b[n-1] != frameEnd {
		return 0, &FrameError{Err: ErrFrameEnd, Type: f.Type, End: b[n-1]}
	}
	f.Payload = b[frameHead : n-1 : n-1]
	return n, nil
}

// Want is how many octets the incomplete frame at the start of b takes in all, 0 while that is not known.
func Want(b []byte) int {
	if len(b) < frameHead {
		return 0
	}
	return int(binary.BigEndian.Uint32(b[3:])) + FrameOverhead
}

// Begin appends the head of a frame whose payload the caller appends next; End completes it.
func Begin(dst []byte, typ uint8, channel uint16) []byte {
	return append(dst, typ, byte(channel>>8), byte(channel), 0, 0, 0, 0)
}

// End completes the frame that was begun at offset start of dst.
func End(dst []byte, start int) []byte {
	binary.BigEndian.PutUint32(dst[start+3:], uint32(len(dst)-start-frameHead))
	return append(dst, frameEnd)
}

// AppendMethod appends a method frame.
func AppendMethod(dst []byte, channel uint16, m Method) []byte {
	start := len(dst)
	return End(m.Append(Begin(dst, FrameMethod, channel)), start)
}

// AppendBody appends a body frame.
func AppendBody(dst []byte, channel uint16, piece []byte) []byte {
	start := len(dst)
	return End(append(Begin(dst, FrameBody, channel), piece...), start)
}

// AppendHeartbeat appends a heartbeat frame.
func AppendHeartbeat(dst []byte) []byte {
	return End(Begin(dst, FrameHeartbeat, 0), len(dst))
}

// ContentHeader is a content header frame's payload.
type ContentHeader struct {
	Class      uint16
	Weight     uint16
	BodySize   uint64
	Properties []byte // property flags and list, a view
}

// Decode reads a header frame's payload. Errors: ErrTruncated.
func (h *ContentHeader) Decode(b []byte) error {
	if len(b) < 14 {
		return ErrTruncated
	}
	h.Class = binary.BigEndian.Uint16(b)
	h.Weight = binary.BigEndian.Uint16(b[2:])
	h.BodySize = binary.BigEndian.Uint64(b[4:])
	h.Properties = b[12:]
	return nil
}

// AppendHeader appends a content header frame.
func AppendHeader(dst []byte, channel uint16, class uint16, size uint64, properties []byte) []byte {
	start := len(dst)
	dst = Begin(dst, FrameHeader, channel)
	dst = binary.BigEndian.AppendUint16(dst, class)
	dst = binary.BigEndian.AppendUint16(dst, 0)
	dst = binary.BigEndian.AppendUint64(dst, size)
	return End(append(dst, properties...), start)
}
