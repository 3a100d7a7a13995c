// Package loopback picks addresses on this machine for nodes that are restarted on them: those of tests and of the demo.
//
// Guarantees: an address that is held is given to nobody else who asks here, in this process or another one of the same
// user, also while nothing listens on it; the kernel does not take its port for an outgoing connection either.
//
// Not guaranteed: that a program which does not ask here leaves the port alone.
//
// Concurrency: its functions may be called from any goroutine.
package loopback
