package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
)

// comparison is what a source spends under one load without its standby and with it, measured in turn.
type comparison struct{ without, with []figures }

// settles is how long a standby that has caught up is left alone before the source is measured with it.
const settles = time.Second

// compare puts a load on the pair's source, without its standby first. The standby's nodes give way to others on the
// machine's processors: what they cost is not the question.
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
	for range rounds {
		without, err := m.span(p.Source, duration)
		if err != nil {
			return c, err
		}
		if err := attach(p); err != nil {
			return c, err
		}
		if err := m.hold(settles); err != nil {
			return c, err
		}
		with, err := m.span(p.Source, duration)
		if err != nil {
			return c, err
		}
		p.Standby.KillAll()
		c.without, c.with = append(c.without, without), append(c.with, with)
	}
	return c, nil
}

// attach starts the standby's nodes and waits until they follow.
func attach(p *harness.Pair) error {
	const nice = 19 // the least urgent
	for _, n := range p.Standby.Members() {
		if err := n.Start(); err != nil {
			return err
		}
		if err := syscall.Setpriority(syscall.PRIO_PGRP, n.Pid(), nice); err != nil {
			return fmt.Errorf("standby node %d: %w", n.ID, err)
		}
	}
	if err := p.Standby.WaitReady(time.Minute); err != nil {
		return err
	}
	return p.WaitCaughtUp(time.Minute)
}

// half is the load at half of the rate that a source without a standby carries.
func (l load) half(c *harness.Cluster, warmup, duration time.Duration) (load, error) {
	l.rate = 0
	f, err := measure(c, l, warmup, duration)
	l.rate = int(f.consumeRate/2) / l.queues
	return l, err
}

// String is a table: each round, the medians, and how the two sides compare.
func (c comparison) String() string {
	text := ""
	for i := range c.with {
		text += fmt.Sprintf("\n  without %v\n  with    %v", short(c.without[i]), short(c.with[i]))
	}
	a, b := medians(c.without), medians(c.with)
	return text + fmt.Sprintf("\n  medians %v\n  against %v\n  with / without: cpu %.3f  fsyncs %.3f  throughput %.3f",
		short(a), short(b), b.cpu/a.cpu, b.syncs/a.syncs, b.consumeRate/a.consumeRate)
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
