// Package pika runs one Python program per RabbitMQ tutorial with the pika client, as anybody would write it, against
// the built broker, and checks what it prints.
//
// Guarantees: pika is the pinned release from the Python package index, in a virtual environment that the test makes.
// The programs know of the broker only its address.
//
// Not guaranteed: anything about other versions of pika or of Python.
//
// Concurrency: every program is a process; a test talks to its own.
package pika
