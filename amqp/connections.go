package amqp

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

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
	s.sockets[nc] = false
	s.serving.Add(1)
	return true
}

func (s *Server) leave(nc net.Conn) {
	s.mu.Lock()
	delete(s.sockets, nc)
	s.mu.Unlock()
	s.serving.Done()
}

func (s *Server) add(nc net.Conn, c *v091.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.conns[c] = struct{}{}
	s.sockets[nc] = true
	return true
}

func (s *Server) remove(c *v091.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// reserve takes one of the open connections' places.
func (s *Server) reserve() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opts.ConnectionsMax > 0 && s.open >= s.opts.ConnectionsMax {
		return false
	}
	s.open++
	return true
}

func (s *Server) unreserve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
}

func (s *Server) endpoints() []*v091.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.conns))
}

// Connections lists the connections, sorted by name.
func (s *Server) Connections() []ConnectionInfo {
	var infos []ConnectionInfo
	for _, c := range s.endpoints() {
		infos = append(infos, c.Info())
	}
	slices.SortFunc(infos, func(a, b ConnectionInfo) int { return strings.Compare(a.Name, b.Name) })
	return infos
}

// Open is how many connections there are.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Users counts the connections by user; those not opened yet are nobody's ("").
func (s *Server) Users() map[string]int {
	users := map[string]int{}
	for _, c := range s.endpoints() {
		users[c.User()]++
	}
	return users
}

// CloseConnectionsOf closes the connections of a user with 320 and reason.
func (s *Server) CloseConnectionsOf(user, reason string) {
	for _, c := range s.endpoints() {
		if c.User() == user {
			c.Close(reason)
		}
	}
}

// CloseConnection closes the connection of that name with 320 and reason; false if there is none.
func (s *Server) CloseConnection(name, reason string) bool {
	for _, c := range s.endpoints() {
		if c.Name() == name {
			c.Close(reason)
			return true
		}
	}
	return false
}

// CloseAll closes the connections that are there now with 320 and reason, and goes on listening.
func (s *Server) CloseAll(reason string) {
	for _, c := range s.endpoints() {
		c.Close(reason)
	}
}

// cutTimeout is how long clients may take to go after their sockets were closed.
const cutTimeout = time.Second

// Close stops listening, closes every client with 320 and says why, and waits until they are gone. When ctx is done
// first, the sockets are closed under those that are left; the error says how many. Connections that have not come as far
// as an endpoint are closed at once.
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
	select {
	case <-gone:
	case <-time.After(cutTimeout):
	}
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
	for nc, served := range s.sockets {
		if !served {
			_ = nc.Close()
		}
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
