// Package route is a vhost's routing table: from an exchange and routing keys (or headers) to the queues that get a
// message. It is derived state: the machine owns exchanges and bindings, and builds this anew when it loads.
//
// Guarantees: Route and RouteAll answer each queue once however many bindings lead to it, in ascending order of id, whatever the
// order of binds; cycles of exchange-to-exchange bindings end. A repeated route allocates nothing. Memory of the cache
// is bounded; topic matching is bounded whatever the patterns.
//
// Not guaranteed: that a Dest's queue exists; whoever deletes a queue unbinds it.
//
// Concurrency: none. A Router belongs to its machine's goroutine; Route writes too.
package route
