// Package node is one running Understudy: it ties the data folder, the store, the raft groups, the session broker, the
// AMQP listeners and the admin port together.
//
// Guarantees: a data folder serves one process, and only the node and cluster that it was made for; everything else is
// refused with a line that names the remedy. Ready means: registered in every group, the cluster has its id, the vhost
// "/" is there, the disk has room, and no drain has begun. Stop moves leadership
// away, closes clients with 320 and writes what is in memory.
//
// Not guaranteed: that Stop keeps its time when a disk hangs; the caller bounds it.
//
// Concurrency: Start and Stop once each; everything else may be called from any goroutine.
package node
