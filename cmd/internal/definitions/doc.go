// Package definitions judges a file of definitions (RabbitMQ's JSON) before any of it is carried out: it reads the file, compares
// it with what a cluster has, and has a machine of its own rehearse what it declares.
//
// Guarantees: Read and Check change nothing, and list every fault, not the first alone. What Check lets through the machines take
// if they still have what the State says: a rehearsal is the machine's own code. A Plan is idempotent: carried out twice, or
// once more after it was cut short, it leaves the same.
//
// Not guaranteed: that the cluster is still what State says when a Plan is carried out.
//
// Concurrency: plain functions and values.
package definitions
