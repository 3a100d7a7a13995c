package rawclient

import (
	"slices"
	"testing"
)

func TestATapSaysEachFrameOnceHoweverItsOctetsCome(t *testing.T) {
	octets := []byte("AMQP\x00\x00\x09\x01")
	octets = AppendCall(octets, 3, "queue.declare", "q", false, true)
	octets = AppendCall(octets, 0, "connection.open", "/")
	octets = AppendCall(octets, 3, "basic.publish", "", "q", true, false)
	octets = AppendContent(octets, 3, 4096, &Properties{}, []byte("a body"))
	octets = AppendFrame(octets, frameHeartbeat, 0, nil)
	octets = AppendFrame(octets, frameMethod, 1, []byte{0, 99, 0, 1})
	whole := []string{`"AMQP\x00\x00\t\x01"`, "3 queue.declare q false true false false false map[]", "0 connection.open /", "3 basic.publish  q true false",
		"3 header of 6 octets", `3 body "a body"`, "0 heartbeat", "1 method 99.1"}
	for _, at := range []int{1, 7, 8, 9, len(octets)} {
		var said []string
		tap := &Tap{Say: func(line string) { said = append(said, line) }}
		for chunk := range slices.Chunk(octets, at) {
			if n, err := tap.Write(chunk); n != len(chunk) || err != nil {
				t.Fatalf("writing %d octets: %d, %v", len(chunk), n, err)
			}
		}
		if !slices.Equal(said, whole) {
			t.Errorf("%d octets at a time: it says %q", at, said)
		}
	}
}

func TestATapFallsSilentAtWhatIsNoFrame(t *testing.T) {
	var said []string
	tap := &Tap{Say: func(line string) { said = append(said, line) }}
	for _, octets := range [][]byte{[]byte("GET / HTTP/1.1\r\n"), AppendFrame(nil, frameHeartbeat, 0, nil)} {
		if n, err := tap.Write(octets); n != len(octets) || err != nil {
			t.Fatalf("writing %d octets: %d, %v", len(octets), n, err)
		}
	}
	if want := []string{"no frame: 47 45 54 20 2f 20 48 54"}; !slices.Equal(said, want) {
		t.Errorf("it says %q", said)
	}
}
