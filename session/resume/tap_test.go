package resume

import (
	"encoding/binary"
	"slices"
	"testing"
)

func methodFrame(channel uint16, class, method uint16, args ...byte) []byte {
	b := []byte{1}
	b = binary.BigEndian.AppendUint16(b, channel)
	b = binary.BigEndian.AppendUint32(b, uint32(4+len(args)))
	b = binary.BigEndian.AppendUint16(b, class)
	b = binary.BigEndian.AppendUint16(b, method)
	return append(append(b, args...), 0xCE)
}

func TestTapHearsHostsAndRefusalHoweverTheOctetsCome(t *testing.T) {
	hosts, text := "a:1,b:2", "NOT_FOUND - session unknown"
	big := methodFrame(3, 60, 60, make([]byte, 70_000)...)
	stream := slices.Concat(
		methodFrame(0, 10, 10, make([]byte, 500)...),
		methodFrame(0, 10, 41, append([]byte{byte(len(hosts))}, hosts...)...),
		big,
		methodFrame(5, 10, 50, 0, 1, 0), // not of channel 0
		methodFrame(0, 10, 50, append([]byte{1, 0x94, byte(len(text))}, text+"\x00\x0a\x00\x28"...)...),
	)
	for _, step := range []int{1, 2, 3, 7, 8, 100, 4096, len(stream)} {
		var x tap
		for rest := stream; len(rest) > 0; {
			n := min(step, len(rest))
			x.listen(rest[:n])
			rest = rest[n:]
		}
		heard, refusal := x.heard()
		if !slices.Equal(heard, []string{"a:1", "b:2"}) || refusal == nil || refusal.Code != 404 || refusal.Reason != text {
			t.Errorf("in steps of %d: %q, %v", step, heard, refusal)
		}
		if cap(x.head) > 1024 {
			t.Errorf("in steps of %d: %d octets are kept", step, cap(x.head))
		}
	}
}

// FuzzTap: no octets of a server's make it fall, or keep more than a frame's beginning.
func FuzzTap(f *testing.F) {
	f.Add(methodFrame(0, 10, 50, 1, 0x94, 3, 'w', 'h', 'y'))
	f.Add(methodFrame(0, 10, 41, 255, 'x'))
	f.Fuzz(func(t *testing.T, b []byte) {
		var x tap
		x.listen(b)
		if len(x.head) > frameHeader+listenBytes {
			t.Fatalf("%d octets are kept", len(x.head))
		}
	})
}
