// Package store is the stored form of the machines: the state of each group as rows in one Pebble database, the contents
// that outlived their log segments, and snapshots that carry both to another node.
//
// Guarantees: a checkpoint is one atomic batch of what changed and the applied index, so whatever survives a crash is
// the state exactly at its applied index; nothing is forgotten by the machine on disk before Durable says so. A content
// can be read at any moment while a reference to it lives, before, during and after its move out of the log. A snapshot
// that is truncated, damaged or oversized is refused and changes nothing; an install is one atomic step that can be
// repeated. A row that cannot be read stops the opening of its group.
//
// Not guaranteed: anything after the newest checkpoint: there is no write-ahead log here, the raft log is it. A Pebble
// failure is not survived: it goes to Options.Fatal, which ends the process. (A full disk is none: writes wait for room.)
//
// Concurrency: a Group's methods belong to its apply goroutine, but for Applied, Durable, Conf, Content, Stage and View,
// which any goroutine may call. A DB may be used from any goroutine. Nothing may be used after Close.
package store
