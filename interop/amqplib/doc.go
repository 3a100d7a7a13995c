// Package amqplib runs programs with the Node clients amqplib and amqp-connection-manager, as anybody would write them,
// against the built broker, and the tests that the npm package amqplib ships.
//
// Guarantees: both are pinned releases from the npm registry. A shipped test that fails without being listed in
// shipped_test.go fails ours, and so does a listed one that passes.
//
// Not guaranteed: anything about other versions of the packages or of Node (18 or later).
//
// Concurrency: every program is a process; a test talks to its own.
package amqplib
