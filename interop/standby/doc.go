// Package standby runs a cluster and its standby, as processes, and has the one take over from the other.
//
// Guarantees: a round that passes lost nothing that its kind may not lose, doubled nothing, and left all nodes of the
// promoted cluster in the same state. A failing round prints the command that replays its choices (seed); the timing of
// processes and sockets is the machine's and not the seed's.
//
// Not guaranteed: anything about disks that lose what they synced (cmd/internal/powerloss has those).
//
// Concurrency: rounds run one after the other.
package standby
