// Package harness runs real Understudy nodes as processes and does to them what a bad day does: kill -9, SIGSTOP, a
// restart, a cut or slow network between two of them, and to nodes that are Cuttable what a power cut does.
//
// Guarantees: the binary is built once per test process. Nodes listen on free loopback ports that stay theirs over
// restarts. Every byte between two nodes passes a userspace proxy of its directed pair (unless Options.Direct), so that
// each direction can be cut or delayed alone. All processes end with the test, also when the test process is killed. A
// failed test prints the tail of every node's log and keeps the whole.
//
// Not guaranteed: that a cut looks like a lost packet. Bytes of a cut direction are held, as TCP would hold what it
// cannot get acknowledged, and go on when the cut heals.
//
// Concurrency: a Cluster belongs to one test, but its methods may be called from several goroutines.
package harness
