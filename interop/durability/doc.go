// Package durability looks from outside at what a confirm costs: the system calls by which a node puts a message on
// disk.
//
// Guarantees: a confirm that was sent without a sync of its own batch on a majority of the nodes is found, since
// sequential publishes share no batch.
//
// Not guaranteed: that the disk keeps what it was told to sync.
//
// Concurrency: one cluster per test.
package durability
