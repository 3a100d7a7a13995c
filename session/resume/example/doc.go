// Command example publishes orders and works them off, through session/resume: run it against a cluster, and kill nodes or cut
// connections as long as it runs. It prints what became of the connection, and in the end one line: how many orders were
// published and how many were worked off, each once.
//
//	go run ./session/resume/example -orders 10000 amqp://10.0.0.1 amqp://10.0.0.2 amqp://10.0.0.3
//
// Guarantees: exit code 0 if every order was worked off once and in order, 1 otherwise.
//
// Not guaranteed: an end, where the cluster does not come back: interrupt it.
//
// Concurrency: it is a program.
package main
