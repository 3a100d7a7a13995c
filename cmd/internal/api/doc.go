// Package api is the JSON of the admin API: what the server writes and the verbs of the command line read. Field names
// are RabbitMQ's where it has the thing.
//
// Guarantees: fields are added, never renamed or given another meaning.
//
// Not guaranteed: that every field of RabbitMQ's is there; a field that we cannot fill truthfully is left out.
//
// Concurrency: plain values.
package api
