// Package amqplib runs programs with the Node clients amqplib and amqp-connection-manager, as anybody would write them,
// against the built broker, and the tests that the npm package amqplib ships.
//
// Guarantees: both are pinned releases from the npm registry. Every test that the package ships must pass.
//
// Not guaranteed: anything about other versions of the packages or of Node (18 or later).
//
// Concurrency: every program is a process; a test talks to its own.
package amqplib
