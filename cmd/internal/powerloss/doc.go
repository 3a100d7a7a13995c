// Package powerloss holds the tests of whole nodes, from the session down to the disk, in one process: under power loss at
// any sync, and under disks that fail, fill up or come back damaged. There is nothing in it but tests and their rig.
//
// Guarantees: a cut leaves what a disk would: synced bytes, and of the others a share that the case names. What was
// promised (a confirm, a synchronous reply) is noted before the cut and what was asked for after it, so whatever a node
// that boots from the cut holds is judged against every state that it may be in, exactly. Disks of several nodes are cut
// in one instant. A life of a cluster (a few short ones, or -run Lives -args -lives N) mixes all
// this with changes of leaders and members, snapshots, a standby that has the log held for it, and the moving of contents out of the log; at its
// end, when all queues are gone, the logs have to be as empty. A case that fails is printed as the command that runs its script again.
//
// Not guaranteed: that a run repeats: the seed decides the clients' scripts and the share of syncs that are cut, while the
// interleaving of goroutines is the scheduler's. Disks are in memory; that a real one keeps what it synced is taken on trust.
//
// Concurrency: a cluster, its clients and its disks belong to one test; cuts are taken on whatever goroutine syncs.
package powerloss
