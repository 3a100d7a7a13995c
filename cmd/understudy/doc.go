// Command understudy is the broker and its command line: `serve` runs a node, the other verbs ask a running node's admin
// API, speak AMQP to it, or work on a stopped node's data folder.
//
// Guarantees: results go to standard output, as a table or with --json as the admin API's JSON; a failure is one clear
// line on standard error and a non-zero exit: 2 for wrong settings or usage, 1 for everything else.
//
// Not guaranteed: the layout of the tables; scripts use --json.
//
// Concurrency: one verb per process.
package main
