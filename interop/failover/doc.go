// Package failover puts three nodes under confirmed load, a plain one and one of all that makes messages end otherwise than
// by being consumed, does something bad to them, and has the checker judge what became of the messages.
//
// A round is one fault. It counts only if the fault was seen to bite (the leader changed, connections broke, a node fell
// behind, confirms slowed) and at least 1,000 messages were confirmed during or after it.
//
// Guarantees: a round that passes had no confirmed message lost, none doubled by the broker, none out of order or
// changed, each dead letter dead for a reason that its queue has, no transaction torn, and all nodes in the same state
// afterwards; and each of those ends came. A failing round prints the command that replays its fault with
// its choices (seed); the timing of processes and sockets is the machine's and not the seed's.
//
// Not guaranteed: that a fault which did not bite in its round is harmless, or anything about disks that lose what they synced.
//
// Concurrency: rounds run one after the other.
package failover
