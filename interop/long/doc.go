// Package long holds the black-box tests of what takes gigabytes or minutes: a large backlog, a forgotten unacknowledged
// message, a follower far behind, a dead node replaced, a thousand vhosts, a million messages deleted at once,
// thousands of clients that come back at once.
//
// Guarantees: with -long the sizes are those that the project promises something for, and the promise is checked; without
// it the same steps are taken with a hundredth of the messages, so that `go test ./...` walks them too. Figures are
// logged.
//
// Not guaranteed: speed; interop/bench measures that.
//
// Concurrency: one cluster per test.
package long
