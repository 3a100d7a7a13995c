package programs

import (
	"net"
	"testing"
	"time"
)

// Forward listens on the address and forwards each connection to the first of the targets that takes it, until the test
// ends. It answers where it listens. Where a client knows a single address, it stands for the load balancer that people
// put before a cluster.
func Forward(t testing.TB, address string, targets ...string) string {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("forwarding %s: %v", address, err)
	}
	t.Cleanup(func() { _ = l.Close() })
	r := recording(t)
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			go forward(near, targets, r)
		}
	}()
	return l.Addr().String()
}

func forward(near net.Conn, targets []string, r *recorder) {
	defer func() { _ = near.Close() }()
	for _, target := range targets {
		far, err := net.DialTimeout("tcp", target, time.Second)
		if err != nil {
			continue
		}
		client := near.RemoteAddr().String()
		go func() { r.copy(client+" > "+target, far, near); _ = far.Close() }()
		r.copy(client+" < "+target, near, far)
		_ = far.Close()
		return
	}
}
