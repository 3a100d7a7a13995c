// Command session works in the session of AMQP_SESSION, through two failovers; the package programs says what each line shows.
// Nothing but a client property knows of sessions. Its argument says who reconnects: "loop", the application, or "recovery",
// the library.
//
// Guarantees: it prints a line when the broker closes a channel.
//
// Not guaranteed: that it ends; whoever started it kills it.
//
// Concurrency: one program per session.
package main
