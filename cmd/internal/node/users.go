package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/understudy-mq/understudy/cmd/internal/admin"
	"github.com/understudy-mq/understudy/cmd/internal/audit"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/session/auth"
)

const (
	// accessInterval is between looks at the system group's state: changes announce themselves, but not those that come
	// with a snapshot.
	accessInterval = 250 * time.Millisecond
	accessTimeout  = 10 * time.Second // for a change to be applied
)

// accounts keeps what the node knows of users and vhosts up to date with the system group, and changes it there.
type accounts struct {
	registry *auth.Registry
	homes    homes
	state    func(func(*core.Machine)) // reads the system group
	submit   func(commands []byte, n int) error
	standsBy func() bool // the cluster is a standby
	changed  func()      // called when the registry has changed
	audit    func(audit.Event)
	limiting sync.Mutex

	refreshing sync.Mutex
	wake       chan struct{} // holds one: something may have changed

	mu      sync.Mutex
	request uint64
	waiting map[uint64]chan core.Effect // by request
}

func newAccounts() *accounts {
	return &accounts{
		registry: auth.NewRegistry(), wake: make(chan struct{}, 1),
		request: rand.Uint64(), // unlike an earlier run's, whose changes may still be applied
		waiting: map[uint64]chan core.Effect{},
	}
}

// watch follows the system group until ctx is done.
func (a *accounts) watch(ctx context.Context) {
	tick := time.NewTicker(accessInterval)
	defer tick.Stop()
	for {
		a.refresh()
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		case <-tick.C:
		}
	}
}

// refresh makes the registry what the system group says.
func (a *accounts) refresh() {
	a.refreshing.Lock()
	defer a.refreshing.Unlock()
	var generation uint64
	var users []core.UserInfo
	var permissions []core.PermissionInfo
	var topics []core.TopicPermissionInfo
	known := a.registry.Generation()
	moved := false
	a.state(func(m *core.Machine) {
		moved = a.homes.refresh(m)
		if generation = m.AccessGeneration(); generation != known {
			users, permissions, topics = m.Users(), m.Permissions(), m.TopicPermissions()
		}
	})
	if generation != known {
		a.registry.Update(generation, users, permissions, topics)
	}
	if moved || generation != known {
		a.changed()
	}
}

// applied takes the system group's effects, in its apply goroutine.
func (a *accounts) applied(node uint64, fx *core.Effects) {
	for i := range fx.List {
		e := &fx.List[i]
		if e.Session != 0 || e.Command < entry.KindUserPut {
			continue
		}
		select {
		case a.wake <- struct{}{}:
		default:
		}
		if e.Node == node {
			a.answer(e)
		}
	}
}

func (a *accounts) answer(e *core.Effect) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if to := a.waiting[e.Request]; to != nil {
		to <- *e // holds one, and gets no more
		delete(a.waiting, e.Request)
	}
}

// expect makes the number of a change, and where its answer comes.
func (a *accounts) expect() (uint64, chan core.Effect) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.request++
	to := make(chan core.Effect, 1)
	a.waiting[a.request] = to
	return a.request, to
}

func (a *accounts) forget(request uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, request)
}

// change carries out a change and takes note of it. Errors: admin.ErrNoUser; those of propose.
func (a *accounts) change(ctx context.Context, what audit.Event, command func(request uint64) entry.Command) error {
	e, err := a.propose(ctx, command)
	switch {
	case err != nil:
		return err
	case e.Kind == core.EffectRefused:
		return admin.ErrNoUser
	}
	a.audit(what)
	return nil
}

// propose has the system group carry out a command and answers its reply or refusal: by then this node judges by the new
// state. command makes it with its number. Errors: admin.Unavailable, and then the change may still come.
func (a *accounts) propose(ctx context.Context, command func(request uint64) entry.Command) (core.Effect, error) {
	if a.standsBy() {
		return core.Effect{}, errChangesNothing
	}
	ctx, cancel := context.WithTimeout(ctx, accessTimeout)
	defer cancel()
	request, answer := a.expect()
	defer a.forget(request)
	if err := a.submit(entry.Append(nil, command(request)), 1); err != nil {
		return core.Effect{}, admin.Unavailable{Err: fmt.Errorf("the system group takes no change now: %w", err)}
	}
	select {
	case e := <-answer:
		a.refresh()
		return e, nil
	case <-ctx.Done():
		return core.Effect{}, admin.Unavailable{Err: errors.New("the system group has not answered in time; the change may still come")}
	}
}
