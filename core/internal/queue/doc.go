// Package queue keeps the ready messages of one queue: a list of small pointer-free references, sorted by message number;
// and beside it notes on those messages that need one.
//
// Guarantees: pushing a new message and popping the first are O(1); a returned message goes back to its original place,
// at the cost of moving at most one chunk; memory is 24 bytes a reference in chunks of up to ChunkRefs, recycled through a
// Pool; an empty list holds at most one small chunk. Each chunk is a row for checkpoints, and only chunks that changed
// are reported.
//
// Not guaranteed: anything about what the references mean.
//
// Concurrency: none. A List and its Pool belong to one goroutine at a time.
package queue
