package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
)

// comparison is what a source spends under one load without its standby and with it, measured in turn.
type comparison struct{ without, with []figures }

// settles is how long the pair is left alone before the source is measured.
const settles = 500 * time.Millisecond

// attach starts a pair. Where its source is measured its standby gives way to others on the machine's processors: what that costs is not the
// question. Otherwise it does not: on a busy machine it would get none.
func attach(t testing.TB, o harness.PairOptions, measured bool) (*harness.Pair, error) {
	const nice = 19 // the least urgent
	p := harness.StartPair(t, o)
	if !measured {
		return p, nil
	}
	for _, n := range p.Standby.Members() {
		if err := syscall.Setpriority(syscall.PRIO_PGRP, n.Pid(), nice); err != nil {
			return nil, fmt.Errorf("standby node %d: %w", n.ID, err)
		}
	}
	return p, nil
}

// compare puts a load on the pair's source, and stops its standby every other time.
func compare(p *harness.Pair, l load, warmup, duration time.Duration, rounds int) (c comparison, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	m := newMeter()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	if err := l.start(ctx, p.Source.URLs(), m, &wg); err != nil {
		return c, err
	}
	if err := m.hold(warmup); err != nil {
		return c, err
	}
	measured := func(to *[]figures) error {
		if err := m.hold(settles); err != nil {
			return err
		}
		f, err := m.span(p.Source, duration)
		*to = append(*to, f)
		return err
	}
	for range rounds {
		if err := each(p.Standby, (*harness.Node).Pause); err != nil {
			return c, err
		}
		if err := measured(&c.without); err != nil {
			return c, err
		}
		if err := each(p.Standby, (*harness.Node).Resume); err != nil {
			return c, err
		}
		if err := p.WaitCaughtUp(harness.Patience); err != nil {
			return c, err
		}
		if err := measured(&c.with); err != nil {
			return c, err
		}
	}
	return c, nil
}

func each(c *harness.Cluster, do func(*harness.Node) error) error {
	for _, n := range c.Members() {
		if err := do(n); err != nil {
			return err
		}
	}
	return nil
}

// half is the load at half of the rate that a source carries while its standby stands still.
func (l load) half(p *harness.Pair, warmup, duration time.Duration) (load, error) {
	if err := each(p.Standby, (*harness.Node).Pause); err != nil {
		return l, err
	}
	f, err := measure(p.Source, l, warmup, duration)
	l.rate = int(f.consumeRate/2) / l.queues
	return l, errors.Join(err, each(p.Standby, (*harness.Node).Resume), p.WaitCaughtUp(harness.Patience))
}

// String is a table: each round, the medians, and how the two sides compare. How publishes fall together decides how many syncs
// they take, and most of the processor time: so it is also told what a message costs more at equally many syncs.
func (c comparison) String() string {
	text := ""
	for i := range c.with {
		text += fmt.Sprintf("\n  without %v\n  with    %v", short(c.without[i]), short(c.with[i]))
	}
	a, b := medians(c.without), medians(c.with)
	extra := c.extra()
	return text + fmt.Sprintf("\n  medians %v\n  against %v\n  with / without: cpu %.3f, at equally many syncs %.3f (%+.1f us/msg); fsyncs %.3f; throughput %.3f",
		short(a), short(b), b.cpu/a.cpu, 1+extra/a.cpu, extra, b.syncs/a.syncs, b.consumeRate/a.consumeRate)
}

// extra is how many microseconds a message costs more with a standby, less what the difference in syncs explains: the means'
// distance from the line that both sides' rounds have in common (an analysis of covariance).
func (c comparison) extra() float64 {
	var both, syncs float64
	for _, side := range [][]figures{c.without, c.with} {
		m := means(side)
		for _, f := range side {
			both += (f.syncs - m.syncs) * (f.cpu - m.cpu)
			syncs += (f.syncs - m.syncs) * (f.syncs - m.syncs)
		}
	}
	a, b, slope := means(c.without), means(c.with), 0.0
	if syncs > 0 {
		slope = both / syncs
	}
	return b.cpu - a.cpu - slope*(b.syncs-a.syncs)
}

func means(all []figures) (m figures) {
	for _, f := range all {
		m.cpu += f.cpu / float64(len(all))
		m.syncs += f.syncs / float64(len(all))
	}
	return m
}

func short(f figures) string {
	return fmt.Sprintf("consume %7.0f/s  cpu %6.1f us/msg  fsyncs %6.1f  reads %6.1f  writes %6.1f /1000 msg  allocs %5.2f/msg",
		f.consumeRate, f.cpu, f.syncs, f.reads, f.writes, f.allocations)
}

// medians are each figure's own.
func medians(all []figures) (m figures) {
	for _, field := range []func(*figures) *float64{
		func(f *figures) *float64 { return &f.publishRate }, func(f *figures) *float64 { return &f.consumeRate },
		func(f *figures) *float64 { return &f.cpu }, func(f *figures) *float64 { return &f.syncs },
		func(f *figures) *float64 { return &f.reads }, func(f *figures) *float64 { return &f.writes },
		func(f *figures) *float64 { return &f.allocations },
	} {
		*field(&m) = median(all, func(f figures) float64 { return *field(&f) })
	}
	return m
}

func median(all []figures, of func(figures) float64) float64 {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b figures) int { return cmp.Compare(of(a), of(b)) })
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (of(sorted[(n-1)/2]) + of(sorted[n/2])) / 2
}
