// Package pika runs programs with the pika client for Python, as anybody would write them, against the built broker: those
// of RabbitMQ's tutorials, one conversation through every part of the protocol, and one that loses its node.
//
// Guarantees: pika is the pinned release from the Python package index, in a virtual environment that the test makes.
// The programs know of the broker only its addresses.
//
// Not guaranteed: anything about other versions of pika or of Python.
//
// Concurrency: every program is a process; a test talks to its own.
package pika
