// Package ledger keeps the deliveries in flight of one channel, by delivery tag.
//
// Guarantees: tags are given out in sequence from 1; adding, finding and taking one are O(1) but for a binary search over
// the chunks; a chunk of up to ChunkRecords is freed when all its tags are settled, so that one forgotten delivery costs
// one chunk however many pass. Records are free of pointers. Each chunk is a row for checkpoints, and only chunks that
// changed are reported.
//
// Not guaranteed: anything about what the records mean.
//
// Concurrency: none. A Ledger and its Pool belong to one goroutine at a time.
package ledger
