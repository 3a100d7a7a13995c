// Package replication carries batches of commands through raft to the machines of all nodes: groups, the segment log
// they share (replication/log), the transport between peers (replication/transport), the submitter that gives every
// batch its place exactly once and in order, membership and snapshots.
//
// Guarantees: what Submit accepted while the node stays registered is applied exactly once and in the order of Submit
// calls, whatever happens to leaders. An entry is handed to Machine.Apply only when a majority of the voters, this node
// included, has it on disk. A failed fsync ends the process (Options.Fatal).
//
// A standby's group (its machine says so) proposes only what Replay and ControlLocal hand it.
//
// Not guaranteed: that Submit's commands are applied at all once the node loses its registration (its clients are then
// closed and the commands are dropped, unconfirmed). That a question that one node Asks another is answered.
//
// Concurrency: Node and Group may be used from any goroutine. A Machine's methods are called from its group's apply
// goroutine only, but for those marked safe.
package replication
