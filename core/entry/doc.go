// Package entry is the format of what a group's raft log carries: entries, the batches inside an entry and the commands
// inside a batch.
//
// An entry is sealed by the group's leader: a format version, the leader's stamp, and one or more batches. A batch is
// what one node had to say: its node id, incarnation, sequence number and commands. Control batches (incarnation 0)
// carry commands that are idempotent by themselves (NodeUp, NodeDown, LeaderUp, Tick).
//
// Guarantees: decoding allocates in proportion to its input, never panics, and refuses an unknown version or
// command kind with ErrUnknown (the group must stop, never skip). Encoded bytes are self-delimiting.
//
// Not guaranteed: that commands make sense; the machine judges that.
//
// Concurrency: everything here is a value or a pure function.
package entry
