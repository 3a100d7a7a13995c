// Package wire is what a standby and its source say to each other: requests in JSON, answers to a read as a binary stream
// of checked frames.
//
// An answer is a magic, a head that says what it is (entries, or why there are none), items in log order, and an end. Every
// frame's checksum covers all that came before it, so that a frame that was changed, left out, repeated or put elsewhere is
// found at that frame, and an answer without its end is not whole.
//
// Guarantees: reading allocates in proportion to the bytes that came, never panics, refuses a frame over FrameBytesMax, and
// answers an item only when everything up to it was checked. What Writer writes, Reader reads. Data of entries is written
// as it is.
//
// Not guaranteed: secrecy or authenticity; TLS and tokens give those. Whether the items continue the reader's state is the
// machine's to judge.
//
// Concurrency: a Reader or a Writer belongs to one goroutine; the rest are values.
package wire
