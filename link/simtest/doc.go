// Package simtest runs two clusters, clients and an auditor in one process, in simulated time: the followers, conductors
// and source servers are the real ones, over connections in memory that are cut, silent or lost as a seed says. A cluster's
// own replication is a model: a list of entries for each group that a majority always has, and that each node sees a little
// later, or not at all while it is cut off from the others or stopped (replication/simtest simulates what is left out here).
//
// Guarantees: after each run the standby's groups are a prefix of the source's, entry by entry; a planned switch has lost
// nothing, and no group of the source was open when the standby promoted itself; what a forced promotion lost came after the
// moment that the nodes' lag names; a switch that was cancelled left the source serving and the standby following; the
// former source is fenced once it can be reached. What happens to the clusters, and when, is the seed's alone.
//
// Not guaranteed: that the same seed has goroutines meet in the same order; a failing one is worth running a few times.
//
// Concurrency: a World belongs to one testing/synctest bubble.
package simtest
