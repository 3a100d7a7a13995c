package coretest

import (
	"flag"
	"fmt"
	"time"
)

// Walks are the random walks of one test. Each begins with a new machine and has a seed of its own; how many there are, and the first
// seed, are flags.
type Walks struct {
	name, test string
	each       int
	operations *int
	seed       *uint64
}

// NewWalks makes the flags -NAME-operations and -NAME-seed, of a test as `go test` runs it ("./core -run TestIt"). A walk is of `each` operations at most.
// It belongs into a package variable.
func NewWalks(name, test string, operations, each int) *Walks {
	return &Walks{name: name, test: test, each: each,
		operations: flag.Int(name+"-operations", operations, "operations of "+test),
		seed:       flag.Uint64(name+"-seed", 1, "seed of "+test+", 0 for a new one")}
}

// Operations is how many there are in all.
func (w *Walks) Operations() int { return *w.operations }

// Run goes through the walks.
func (w *Walks) Run(walk func(seed uint64, operations int)) {
	seed := *w.seed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	for done := 0; done < *w.operations; done += w.each {
		walk(seed, min(w.each, *w.operations-done))
		seed++
	}
}

// Again tells how to do a walk again.
func (w *Walks) Again(seed uint64) string {
	return fmt.Sprintf("again: go test %s -%s-seed=%d -%s-operations=%d", w.test, w.name, seed, w.name, w.each)
}
