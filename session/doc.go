// Package session is the narrow waist between the protocol endpoints and the machine. It speaks AMQP 1.0's wider
// vocabulary (credit, settlement, outcomes); 0-9-1 maps down to it.
//
// An endpoint attaches its connection to a session, says what its client wants (methods of Session, which encode
// commands into the group's open batch) and is told what has happened (Endpoint.Events, in order).
//
// A client that names its session (Request) is attached to one that outlives its connections; the machine keeps it, and this
// package reads what the client asks, and out of its publishes what they are recognised by. DESIGN.md says how the parts
// share the work.
//
// Guarantees: events of one session come in the order of the log. A Confirmed event means: on disk at a majority and
// applied. After Detached no event of that attachment comes any more. Every command of every endpoint is judged by the
// user's permissions, and a refusal fails the channel in the command's place in the log: what is pipelined behind it is
// dead. After Reauthorize no session lives that the registry does not allow.
//
// Not guaranteed: that a command is applied; if the node loses its registration the endpoint is closed instead.
//
// Concurrency: a Session's command methods belong to one goroutine (the connection's reader); Written, Content and Close
// may be called from others. Events is called from the group's apply goroutine and must not block.
package session
