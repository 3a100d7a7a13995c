package standby

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
)

// span is a time in which a node said that it was fenced.
type span struct {
	from time.Time
	to   time.Time // when it said so last; zero: to the end
}

// fences watches when the nodes of the former source say that they are fenced.
type fences struct {
	mu    sync.Mutex
	spans map[int][]span
	done  sync.WaitGroup
	stop  context.CancelFunc
}

func (f *fences) watch(ctx context.Context, nodes []*harness.Node) {
	ctx, f.stop = context.WithCancel(ctx)
	for _, n := range nodes {
		f.done.Go(func() {
			var last time.Time
			for ctx.Err() == nil {
				asked := time.Now()
				if l, err := n.LinkStatus(ctx); err == nil {
					f.saw(n.ID, l.Fenced, last)
					last = asked
				}
				select {
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond):
				}
			}
		})
	}
}

// saw takes down what a node says now, and had said last when it was asked at the moment last.
func (f *fences) saw(node int, fenced bool, last time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.spans[node]
	n := len(list)
	switch open := n > 0 && list[n-1].to.IsZero(); {
	case fenced && !open:
		f.spans[node] = append(list, span{from: time.Now()})
	case !fenced && open:
		list[n-1].to = last
	}
}

// all says whether every node is fenced.
func (f *fences) all() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := 0
	for _, list := range f.spans {
		if list[len(list)-1].to.IsZero() {
			now++
		}
	}
	if now < nodes {
		return fmt.Errorf("%d of %d nodes of the old source say that they are fenced", now, nodes)
	}
	return nil
}

// wait ends the watch.
func (f *fences) wait() {
	f.stop()
	f.done.Wait()
}
