package sessions

import (
	"net"
	"sync"
	"time"
)

// door forwards clients' connections to a node, and cuts them all when it is told to.
type door struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup
	mu       sync.Mutex
	open     map[net.Conn]struct{}
	shut     bool
}

func openDoor(target string) (*door, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &door{listener: l, target: target, open: map[net.Conn]struct{}{}}
	d.wg.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			d.wg.Go(func() { d.serve(near) })
		}
	})
	return d, nil
}

func (d *door) url() string { return "amqp://guest:guest@" + d.listener.Addr().String() + "/" }

func (d *door) serve(near net.Conn) {
	far, err := net.DialTimeout("tcp", d.target, time.Second)
	if err != nil {
		_ = near.Close()
		return
	}
	d.mu.Lock()
	if d.shut {
		d.mu.Unlock()
		_, _ = near.Close(), far.Close()
		return
	}
	d.open[near], d.open[far] = struct{}{}, struct{}{}
	d.mu.Unlock()
	var both sync.WaitGroup
	pump := func(to, from net.Conn) {
		buf := make([]byte, 32<<10)
		for {
			n, err := from.Read(buf)
			if n > 0 {
				if _, werr := to.Write(buf[:n]); werr != nil {
					err = werr
				}
			}
			if err != nil {
				_, _ = to.Close(), from.Close()
				return
			}
		}
	}
	both.Go(func() { pump(far, near) })
	both.Go(func() { pump(near, far) })
	both.Wait()
	d.mu.Lock()
	delete(d.open, near)
	delete(d.open, far)
	d.mu.Unlock()
}

func (d *door) connections() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.open) / 2
}

// cut cuts every connection; new ones are let in.
func (d *door) cut() (connections int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.open {
		_ = c.Close()
	}
	return len(d.open) / 2
}

func (d *door) close() {
	d.mu.Lock()
	d.shut = true
	d.mu.Unlock()
	_ = d.listener.Close()
	d.cut()
	d.wg.Wait()
}
