// Package amqp is where AMQP clients come in: listeners, TLS, and the protocol header that tells which endpoint a
// connection is for.
//
// Guarantees: a peer that does not speak AMQP is answered with the header of what is spoken here, and closed. Connections
// that have not logged in are bounded in number, time and memory. Close tells every client why and waits for it.
//
// Not guaranteed: that a connection is refused early; limits per user or vhost are judged when it opens.
//
// Concurrency: a Server is safe for concurrent use.
package amqp
