// Package rawclient speaks just enough AMQP 0-9-1 over a socket to load a broker more than a client library can: frames
// are written and read in large blocks and nothing is allocated per message.
//
// Guarantees: what the broker closes is an error with its code and text. Frames are checked for their end octet.
//
// Not guaranteed: heartbeats (none are negotiated), more than channel 1, a server that speaks out of turn.
//
// Concurrency: one goroutine may write (Publish, Ack, Flush) while another reads (Confirm, Next).
package rawclient
