// Package rawclient speaks AMQP 0-9-1 over a socket where a client library will not do. Conn loads a broker more than one
// can: frames are written and read in large blocks and nothing is allocated per message. Frames sends whatever its caller
// wants, right or wrong, and reads what comes, one event at a time. Tap puts the frames of somebody else's connection into words.
//
// Guarantees: what the broker closes is, for Conn, an error with its code and text, for Frames an event. Frames that come
// are checked for their end octet, with Frames also for the agreed size. Every read and write of Frames is bounded in time.
//
// Not guaranteed: heartbeats (Conn negotiates none, Frames sends none by itself); with Conn more than channel 1, and a
// server that speaks out of turn.
//
// Concurrency: one goroutine may write (Publish, Ack, Flush; Write, Send) while another reads (Confirm, Next). A
// Tap belongs to the goroutine that writes to it, in which Say is called.
package rawclient
