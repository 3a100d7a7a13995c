package loopback

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// Ports below the range from which the usual kernels serve outgoing connections (Linux: 32768 and up).
const (
	firstPort = 18000
	portCount = 14000
)

// Held are addresses that are kept for whoever asked.
type Held struct {
	Addresses []string // host:port
	locks     []*os.File
	once      sync.Once
}

// Hold keeps n addresses that nothing listens on now, until Release or the end of the process.
func Hold(n int) (*Held, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("understudy-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("a folder for the locks of ports: %w", err)
	}
	h := &Held{}
	for _, i := range rand.Perm(portCount) {
		if len(h.Addresses) == n {
			return h, nil
		}
		if err := h.add(dir, firstPort+i); err != nil {
			h.Release()
			return nil, err
		}
	}
	h.Release()
	return nil, fmt.Errorf("fewer than %d free loopback ports from %d to %d", n, firstPort, firstPort+portCount-1)
}

// TB is what Addresses needs of a test.
type TB interface {
	Helper()
	Fatal(...any)
	Cleanup(func())
}

// Addresses holds n addresses until the test has ended.
func Addresses(t TB, n int) []string {
	t.Helper()
	h, err := Hold(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Release)
	return h.Addresses
}

// Release gives the addresses back.
func (h *Held) Release() {
	h.once.Do(func() {
		for _, l := range h.locks {
			_ = l.Close()
		}
	})
}

// add takes a port if nobody holds it or listens on it.
func (h *Held) add(dir string, port int) error {
	lock, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(port)), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("the lock of a port: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil
		}
		return fmt.Errorf("locking a port: %w", err)
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return lock.Close() // somebody listens
	}
	h.Addresses, h.locks = append(h.Addresses, l.Addr().String()), append(h.locks, lock)
	return l.Close()
}
