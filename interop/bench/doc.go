// Package bench measures what the broker spends per message: throughput, latency, CPU, syncs, system calls and
// allocations, on one node and on three, with amqp091-go and with plain sockets.
//
// Guarantees: every message measured is published persistently, confirmed, consumed and acknowledged; an order that is
// not the published one, or a body of another size, fails the measurement.
//
// Not guaranteed: that figures of two machines or of two hours compare. Nothing here judges a figure.
//
// Concurrency: measurements run one after the other.
package bench
