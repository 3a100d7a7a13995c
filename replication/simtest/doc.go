// Package simtest runs a cluster of replication groups on one goroutine: network, clock, disks and crashes come from a
// seed, so that a failing run is replayed by its seed alone. It also has the machine that replication's own tests use.
//
// Guarantees: Run checks, at every step, that machines which have applied the same entry agree, and at the end that
// every command whose node stayed registered was applied exactly once, in the order of its Submit calls, on every node.
//
// Not guaranteed: anything about the real log's or transport's bytes; they have tests of their own.
//
// Concurrency: Machine serves one group of a replication.Node and guards itself; a Sim belongs to one goroutine.
package simtest
