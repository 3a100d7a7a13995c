// Command runtests runs `go test` with its arguments, prints what failed, and counts a skipped test as a failure.
//
// Guarantees: it exits with 0 only if every test ran and passed.
//
// Not guaranteed: live output; a test's output is printed when it has failed.
//
// Concurrency: one run per process.
package main
