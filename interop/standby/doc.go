// Package standby runs a cluster and its standby, as processes, and has the one take over from the other.
//
// Guarantees: a round that passes lost nothing that its kind may not lose, doubled nothing, tore no transaction, let nothing
// delayed or aged come before its time and nothing die for a reason that its queue has not; the old source served nobody while it was
// fenced, nor once the other cluster served after a planned switch; all nodes of the promoted cluster were cut at the same places in the same state, which is the source's there as
// far as its disks still tell, hold the source's log up to there entry by entry, and are in the same state afterwards. Messages aged,
// delayed and under way crossed the switch. Its line tells what was hit in the midst of the take-over, and at which step that was. A failing round prints the command that replays its choices (seed); the timing of
// processes and sockets is the machine's and not the seed's.
//
// In two rounds of three nodes can lose their power, and the source is lost that way: what
// they had written and not synced is gone, or some of it. The others run the binary that ships; killed, all at once or
// not, they keep what their kernel had.
//
// Not guaranteed: anything about disks that lose what they had synced.
//
// Concurrency: rounds run one after the other.
package standby
