// Package core is the deterministic machine: the whole state of one raft group's vhosts (exchanges, bindings, queues,
// sessions, consumers, deliveries in flight) and the one function, Apply, that changes it.
//
// Guarantees: the same entries give the same state and the same effects on every replica, whatever the node, the time
// or the hardware; Fingerprint is equal wherever the state is. Apply never refuses an entry of a known version: a
// refusal of a command is an effect with a Code and a text.
//
// Not guaranteed: anything about disks (core/store) or networks; effects may come again after a restart.
//
// Concurrency: none. A Machine belongs to one goroutine at a time.
package core
