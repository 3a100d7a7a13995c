// Package coretest drives a core.Machine in tests: it frames commands as entries, plays the part of the nodes and checks
// the machine's promises as it goes.
//
// Guarantees: after every entry of a Driver the kept-up fingerprint equals the recomputed one, a second replica under
// other raft indexes has the same, and a machine loaded from the rows of all checkpoints so far has it too; otherwise the
// test fails.
//
// Not guaranteed: speed.
//
// Concurrency: none.
package coretest
