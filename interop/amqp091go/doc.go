// Package amqp091go holds the black-box tests with the Go client library: the integration tests that ship in its module,
// and our own of what RabbitMQ's tutorials and applications rely on.
//
// Guarantees: each test runs against the built broker over real sockets. A shipped test that fails without being listed
// in shipped.go fails ours, and so does a listed one that passes.
//
// Not guaranteed: what other client libraries do with the same answers.
//
// Concurrency: tests share one node per file at most and use queues of their own names.
package amqp091go
