// Package librabbitmq runs programs with rabbitmq-c (librabbitmq), as anybody would write them, against the built broker.
//
// Guarantees: the library is Debian's package librabbitmq-dev; the programs are compiled with warnings as errors.
//
// Not guaranteed: anything about other versions of it.
//
// Concurrency: every program is a process; a test talks to its own.
package librabbitmq
