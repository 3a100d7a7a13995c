package programs

import (
	"io"
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
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			go forward(near, targets)
		}
	}()
	return l.Addr().String()
}

func forward(near net.Conn, targets []string) {
	defer func() { _ = near.Close() }()
	for _, target := range targets {
		far, err := net.DialTimeout("tcp", target, time.Second)
		if err != nil {
			continue
		}
		go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
		_, _ = io.Copy(near, far)
		_ = far.Close()
		return
	}
}
