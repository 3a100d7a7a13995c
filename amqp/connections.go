package amqp

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/understudy-mq/understudy/amqp/v091"
)

func (s *Server) listen(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.listeners[l] = struct{}{}
	return true
}

func (s *Server) unlisten(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
	_ = l.Close()
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *Server) enter(nc net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.sockets[nc] = struct{}{}
	s.serving.Add(1)
	return true
}

func (s *Server) leave(nc net.Conn) {
	s.mu.Lock()
	delete(s.sockets, nc)
	s.mu.Unlock()
	s.serving.Done()
}

func (s *Server) add(c *v091.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) remove(c *v091.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

func (s *Server) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open += n
}

// Connections lists the connections, sorted by name.
func (s *Server) Connections() []ConnectionInfo {
	s.mu.Lock()
	infos := make([]ConnectionInfo, 0, len(s.conns))
	for c := range s.conns {
		infos = append(infos, c.Info())
	}
	s.mu.Unlock()
	slices.SortFunc(infos, func(a, b ConnectionInfo) int { return strings.Compare(a.Name, b.Name) })
	return infos
}

// CloseConnection closes the connection of that name with 320 and reason; false if there is none.
func (s *Server) CloseConnection(name, reason string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.Name() == name {
			c.Close(reason)
			return true
		}
	}
	return false
}

// Close stops listening, closes every client with 320 and says why, and waits until they are gone. When ctx is done
// first, the sockets are closed under those that are left; the error says how many.
func (s *Server) Close(ctx context.Context, reason string) error {
	s.shut(fmt.Sprintf("broker forced connection closure with reason '%s'", reason))
	gone := make(chan struct{})
	go func() {
		s.serving.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
	}
	n := s.cut()
	<-gone
	if n == 0 {
		return nil
	}
	return fmt.Errorf("close AMQP clients: %d did not answer in time and were cut off", n)
}

func (s *Server) shut(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	for l := range s.listeners {
		_ = l.Close()
	}
	for c := range s.conns {
		c.Close(text)
	}
}

// cut closes all sockets and answers how many there were.
func (s *Server) cut() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for nc := range s.sockets {
		_ = nc.Close()
	}
	return len(s.sockets)
}
