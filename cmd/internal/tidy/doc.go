// Package tidy holds the tests of the house itself: what may import what, the purity of core, that every package says its
// contract, and that documents name what exists. It has no code of its own but for the test runner in runtests.
//
// Guarantees: a rule that is broken fails a test that names file, line and rule.
//
// Not guaranteed: that code which calls into core through an interface is pure; the rules look at core's own text.
//
// Concurrency: tests only.
package tidy
