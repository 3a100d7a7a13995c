// Package wiretest renders frames as lines of text, for tests that compare what came with what should have.
//
// Guarantees: every field of a method that is not zero is shown, under its name.
//
// Not guaranteed: that a line can be read back.
//
// Concurrency: pure functions.
package wiretest
