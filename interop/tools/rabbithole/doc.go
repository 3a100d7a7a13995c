// Command rabbithole drives a broker's admin API through rabbit-hole v2, RabbitMQ's Go client for it, as the Terraform provider
// does: it declares one of each kind of thing, reads it back, changes it, and deletes it.
//
// Guarantees: it prints what was not as it should be, a line each, and exits with 1; else it exits with 0. What it makes it
// deletes.
//
// Not guaranteed: anything of the broker while it runs twice at once.
//
// Concurrency: one goroutine. It is a module of its own, so that the client under test is no dependency of the broker's.
package main
