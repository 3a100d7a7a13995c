// Package v091 is the AMQP 0-9-1 endpoint: it translates one connection's frames into commands of its session, and the
// session's events back into frames.
//
// The state of channels that matters (confirm mode, prefetch, consumers, delivery tags, what is declared) lives in the
// replicated machine, so whatever has a reply is a command whose reply comes back as an event, in order. The endpoint
// keeps what only this connection can know: the handshake, the content being assembled, names that it generated, and
// which confirm number comes next.
//
// A connection whose client names its session goes on where another one ended. What that leaves to the endpoint is what only a
// connection knows: which tags were written on it, what a queue that the client left unnamed is called, and what the client is
// told of the session (status.go, announce.go).
//
// It is made of two machines without I/O, and a driver:
//
//	receiver   frames in, commands and notices out; belongs to the reading goroutine
//	sender     events and notices in, frames out; belongs to the writing goroutine
//	outbox     what waits between the apply goroutine, the receiver and the sender
//	Conn       the driver: the only part with a socket, a clock or goroutines
//
// Guarantees: limits are enforced before memory is taken: nothing is allocated for a size that a peer merely announces.
// The body of a published message that arrived whole is copied once, from the socket's buffer into the session's batch,
// and nothing is allocated for it. basic.return precedes its confirm. Nothing but channel.close-ok follows a channel.close
// that this side sent, and nothing at all a connection.close. What a client sent before its fault counts. While publishers
// have to wait (session.Flow) what a channel publishes, and what follows it there, is kept back in order; acknowledgements
// outside of a transaction go ahead. What is kept back is bounded: then the connection is not read.
// The declaration of a queue that is another connection's waits while it is not known whether that one lives, for
// Options.OccupiedWait at most: clients that come back at once would take a 405 for the last word. What follows it on its channel
// waits in its order, bounded likewise; other channels do not. A client that closes the channel or the connection meanwhile, and
// has published nothing behind the declaration, ends the wait.
// On a channel the answers to pipelined requests come in the order of the requests, up to the channel.close for the first that
// is refused, be it by the machine or by the endpoint.
//
// Not guaranteed: that a client whose fault ends the connection is still answered what it had pipelined before. A client that
// neither reads nor answers heartbeats is only cut when it negotiated them; without, it is TCP's keep-alive that notices.
//
// Concurrency: a Conn serves itself with two goroutines; Info, Close and the session.Endpoint methods are safe from any.
package v091
