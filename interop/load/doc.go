// Package load puts a broker under confirmed load with amqp091-go and writes down what happens: producers with a window
// of unconfirmed publishes, consumers with manual acknowledgement, all of which reconnect to any node when theirs fails.
//
// Guarantees: a message is published once; after a broken connection a producer goes on with the next one, so that every
// copy is the broker's. An ack counts as committed only once a synchronous reply came behind it on its channel.
//
// Not guaranteed: a steady rate while nodes are down.
//
// Concurrency: a Load's methods are called from one goroutine; its counters from any.
package load
