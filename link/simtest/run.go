package simtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/understudy-mq/understudy/link"
)

// Run lets the pair live through trouble, has the standby take over in the way that the seed says, and audits what came of
// it.
func (w *World) Run() error {
	defer w.stop()
	w.live(time.Duration(2+w.rng.IntN(8)) * time.Second)
	if w.rng.IntN(3) == 0 {
		if err := w.cancelled(); err != nil {
			return err
		}
		w.live(time.Second)
	}
	if w.rng.IntN(3) == 0 {
		if err := w.narrow(); err != nil {
			return err
		}
	}
	how := w.forced
	if w.rng.IntN(2) == 0 {
		how = w.planned
	}
	if err := how(); err != nil {
		return err
	}
	w.heal()
	return errors.Join(
		w.await("the former source is fenced", func() bool { return w.source[0].by.Number > 0 && w.source[groups-1].by.Number > 0 }),
		w.prefix())
}

// narrow leaves one road from the standby to the source: that is enough, whoever leads.
func (w *World) narrow() error {
	if _, already := w.promoted(); already {
		return nil
	}
	w.Met["single roads"]++
	w.heal()
	w.cutOff()
	w.mu.Lock()
	w.network.set(road{w.rng.IntN(nodes), w.rng.IntN(nodes)}, false)
	for i := range 50 {
		w.publish(uint64(i % groups))
	}
	w.mu.Unlock()
	return w.caughtUp()
}

// follows heals everything, and waits until the standby has what the source has.
func (w *World) follows() error {
	w.heal()
	return w.caughtUp()
}

func (w *World) caughtUp() error {
	return w.await("the standby has everything", func() bool {
		for i, g := range w.source {
			if w.standby[i].now.Position != g.at(len(g.entries)) {
				return false
			}
		}
		return true
	})
}

// cancelled is a planned switch that does not come about: its caller gives up, at whatever point.
func (w *World) cancelled() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+w.rng.IntN(300))*time.Millisecond)
	defer cancel()
	w.heal()
	if w.rng.IntN(2) == 0 { // the source is out of reach before it is asked, or once it is fenced
		cut := time.AfterFunc(time.Duration(w.rng.IntN(300))*time.Millisecond, w.cutOff)
		defer cut.Stop()
	}
	healed := time.AfterFunc(3*time.Second, w.heal)
	defer healed.Stop()
	err := w.conductors[w.rng.IntN(nodes)].Switchover(ctx, time.Second)
	if _, promoted := w.promoted(); promoted { // it says so, or that it goes on
		w.Met["switches that came first"]++
		return nil
	}
	if !errors.Is(err, link.ErrCancelled) {
		return fmt.Errorf("a switch whose caller gave up: %w", err)
	}
	w.Met["cancelled switches"]++
	err = w.await("the source is open again", func() bool {
		for _, g := range w.source {
			if g.fence != "" {
				return false
			}
		}
		return true
	})
	return errors.Join(err, w.follows())
}

// planned is a planned switch while trouble goes on; it is asked for again where it is cancelled. It has lost nothing of the
// clients'.
func (w *World) planned() error {
	if _, already := w.promoted(); already {
		return nil
	}
	w.Met["planned switches"]++
	done := make(chan error, 1)
	first := w.rng.IntN(nodes)
	go func() {
		var err error
		for try := range 3 {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			err = w.conductors[(first+try)%nodes].Switchover(ctx, time.Second)
			cancel()
			if err == nil {
				break
			}
		}
		done <- err
	}()
	w.live(time.Second)
	w.heal()
	if err := <-done; err != nil {
		return fmt.Errorf("planned switch: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, g := range w.source {
		for _, e := range g.entries[len(w.standby[i].replayed):] {
			if strings.HasPrefix(string(e.data), messageMark) {
				return fmt.Errorf("planned switch: group %d was cut at entry %d, clients have entry %d", i, w.standby[i].now.Position.Index, e.Index)
			}
		}
	}
	return nil
}

func (w *World) promoted() (int, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.promotedGroup()
}

// forced: the source is gone, some nodes of the standby are asked to promote it, while nothing of it reaches the source.
func (w *World) forced() error {
	if _, already := w.promoted(); already {
		return nil
	}
	w.Met["forced promotions"]++
	if w.rng.IntN(3) > 0 {
		w.lagging()
	}
	w.cutOff()
	w.mu.Lock()
	w.sourceDead = w.rng.IntN(2) == 0 // else it goes on, and its clients with it
	clear(w.apart)
	w.mu.Unlock()
	if !w.sourceDead {
		w.live(time.Duration(w.rng.IntN(1000)) * time.Millisecond)
		w.cutOff()
		w.mu.Lock()
		clear(w.apart)
		w.mu.Unlock()
	}
	var asked sync.WaitGroup
	answers := make([]error, 1+w.rng.IntN(nodes))
	for i := range answers {
		asked.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			answers[i] = w.conductors[i].Promote(ctx)
		})
	}
	asked.Wait()
	if err := errors.Join(answers...); err != nil {
		return fmt.Errorf("promotion: %w", err)
	}
	return w.bounded()
}

// lagging leaves nothing of the source to be reached but a node that does not know what the others commit: it is slow, or cut off from
// them, or it was stopped, and answers what waited before it hears anything.
func (w *World) lagging() {
	w.heal()
	w.cutOff()
	w.mu.Lock()
	clear(w.apart)
	far, kind := w.rng.IntN(nodes), w.seed%3
	w.Met[[...]string{"slow nodes", "deposed leaders", "stopped leaders"}[kind]]++
	w.lags[far] = []time.Duration{time.Minute, 0, 0}[kind]
	w.alone[far], w.stopped[far] = kind > 0, kind == 2
	for n := range nodes {
		w.network.set(road{n, far}, false)
	}
	w.mu.Unlock()
	for end := time.Now().Add(time.Duration(w.rng.IntN(5000)) * time.Millisecond); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		w.mu.Lock()
		w.publish(uint64(w.rng.IntN(groups)))
		w.mu.Unlock()
	}
	w.mu.Lock()
	w.stopped[far] = false
	w.mu.Unlock()
	time.Sleep(time.Duration(w.rng.IntN(100)) * time.Millisecond)
}

// bounded checks what each node would report: everything that was committed before the moment that its lag names is here.
func (w *World) bounded() error {
	for node, l := range w.links {
		for _, f := range l.Followers() {
			since := f.Lag.CaughtUp
			if since.IsZero() {
				continue
			}
			w.Met["bounds"]++
			w.mu.Lock()
			g, cut := w.source[f.Group], len(w.standby[f.Group].replayed)
			for _, e := range g.entries[cut:] {
				if e.at.Before(since) {
					w.fail("group %d: entry %d is missing, which was committed %v before the moment that node %d names",
						f.Group, e.Index, since.Sub(e.at), node)
				}
			}
			w.mu.Unlock()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// prefix checks that the standby's groups are a prefix of the source's.
func (w *World) prefix() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, g := range w.standby {
		for n, data := range g.replayed {
			if n >= len(w.source[i].entries) || !bytes.Equal(data, w.source[i].entries[n].data) {
				return fmt.Errorf("group %d: what was replayed as entry %d is not the source's", i, n+2)
			}
		}
		w.Met["entries replayed"] += len(g.replayed)
		w.Met["entries lost"] += len(w.source[i].entries) - len(g.replayed)
	}
	return w.err
}
