// Package transport carries frames between the nodes of a cluster over TCP: per peer and direction one connection for
// bulk data and one for what is urgent (heartbeats, votes), and one connection per snapshot.
//
// Guarantees: frames on one connection arrive whole, checked (CRC32C) and in order, or the connection is closed; both
// sides know which cluster and which node they speak with before the first frame (a wrong one is refused, with a reason that both
// log); Connected is called for each new connection, before anything is sent on it, so that what the old one may have
// lost can be sent again. Memory per peer is bounded, and no length field is believed before its bytes have come.
//
// Not guaranteed: delivery. A frame is dropped when its peer is not connected or its queue is full (Send says so), and
// what was queued is lost with a connection. Order between bulk and urgent frames.
//
// Concurrency: Transport may be used from any goroutine. Receive is called from one goroutine per connection; a frame's
// payload is valid only during the call.
package transport
