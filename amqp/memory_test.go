package amqp_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/amqp"
	"github.com/understudy-mq/understudy/amqp/v091"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
	"github.com/understudy-mq/understudy/session"
	"github.com/understudy-mq/understudy/session/auth"
)

// memory is a group without a log: what is submitted is applied at once.
type memory struct {
	mu      sync.Mutex
	machine *core.Machine
	broker  *session.Broker
	index   uint64
	seq     uint64
	entries map[uint64][]byte
}

const node, group = 1, 1

func newMemory(t testing.TB) *memory {
	m := &memory{machine: core.New(group), entries: map[uint64][]byte{}}
	m.broker = session.New(session.Options{
		Node:     node,
		Submit:   map[uint64]session.Submitter{group: m},
		Contents: map[uint64]session.Contents{group: m},
		VhostHome: func(v string) (session.Home, bool) {
			return session.Home{Group: group}, v == "/"
		},
	})
	m.control(t, &entry.NodeUp{Node: node, Nonce: 1})
	m.control(t, &entry.LeaderUp{Node: node, Term: 1})
	m.control(t, &entry.VhostCreate{ID: "v", Name: "/"})
	m.broker.Registered(group, 1)
	return m
}

func (m *memory) control(t testing.TB, cmd entry.Command) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.apply(0, 0, entry.Append(nil, cmd)); err != nil {
		t.Fatal(err)
	}
}

// SubmitLater implements session.Submitter.
func (m *memory) SubmitLater(commands []byte, n int) error { return m.Submit(commands, n) }

// Submit implements session.Submitter.
func (m *memory) Submit(commands []byte, _ int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seq++
	return m.apply(1, m.seq, commands)
}

func (m *memory) apply(incarnation, seq uint64, commands []byte) error {
	m.index++
	data := entry.AppendBatch(entry.AppendHeader(nil, time.Now().UnixMilli()), node, incarnation, seq, commands)
	m.entries[m.index] = data
	fx := core.Effects{Node: node}
	if err := m.machine.Apply(m.index, data, &fx); err != nil {
		return err
	}
	m.broker.Dispatch(group, &fx)
	return nil
}

// Content implements session.Contents.
func (m *memory) Content(loc message.Loc, size uint32) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, ok := m.entries[loc.Index()]
	if !ok || loc.Offset()+int(size) > len(data) {
		return nil, fmt.Errorf("no content at %d", loc)
	}
	return data[loc.Offset() : loc.Offset()+int(size)], nil
}

// serve starts a server over a machine in memory and answers its address; it ends with the test.
func serve(t testing.TB, change func(*amqp.Options)) (*amqp.Server, *memory, string) {
	t.Helper()
	m := newMemory(t)
	logins := auth.New(auth.Options{Users: auth.DefaultUsers("guest", "guest")})
	o := amqp.Options{V091: v091.Options{
		Attach: amqp.Sessions(m.broker),
		Authenticate: func(user, password string, peer net.Addr) (string, error) {
			return amqp.NameOf(logins.Authenticate(user, password, peer))
		},
		LoginDelay: time.Millisecond,
	}}
	if change != nil {
		change(&o)
	}
	s := amqp.New(o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background(), l, nil) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Close(ctx, "shutdown"); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s, m, l.Addr().String()
}
