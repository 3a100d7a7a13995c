// Package link is a standby's side of the standby link: a second cluster that replays every committed entry of the first,
// its source, so that after a promotion clients go on where they were.
//
// A Link follows: for each group the node that leads it (or another, where the leader gets no answer) reads the source's
// log and hands each entry to the standby's own group. A Conductor does the rest of a standby's life: it attaches the
// cluster to its source, promotes it, carries out a planned switch and fences the former source. Subpackages: source
// answers what a standby asks, wire is what is said.
//
// Guarantees: what is handed to a group is the source's log, entry by entry, from the position that the group has applied
// on, each with the rolling hash that its bytes give; where that breaks nothing is handed over, and the state says why.
// What is handed over and not applied is bounded. Each step of a promotion or switch is an entry that any node goes on
// from. A planned switch promotes only when every group has the source's fence, and is cancelled only with the record that
// this standby will not promote itself.
//
// Not guaranteed: that nothing is missing after a promotion that is forced: what the source committed after the last
// contact is. The report bounds it by time.
//
// Concurrency: Link and Conductor are safe from any goroutine; Run of each is called once.
package link
