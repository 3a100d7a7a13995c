// Package aiopika runs programs with the asynchronous Python client aio-pika, as anybody would write them, against the
// built broker.
//
// Guarantees: aio-pika is the pinned release from the Python package index, in a virtual environment that the test makes.
//
// Not guaranteed: anything about other versions of it or of Python.
//
// Concurrency: every program is a process; a test talks to its own.
package aiopika
