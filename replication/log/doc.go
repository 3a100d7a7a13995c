// Package log is a node's segment log: the raft entries, hard states and truncation points of all its groups in one
// sequence of files, with one positioned write and one fdatasync for everything that waits (group commit).
//
// Guarantees: once the done of a Write with Sync has run, the write and all earlier ones are on disk and survive power
// loss. Group implements raft.Storage over what was appended, whether synced or not. A write cut short by a crash is
// cut away at the next Open; damage to anything synced stops Open with a DamageError that names file and offset, and is never
// repaired by truncation. The bytes of a recycled file never look like new ones. A segment leaves only when no group
// and no pin needs it, and no segment ever holds the only copy of a vote, a term or a truncation point.
//
// Not guaranteed: that a Write without Sync survives anything but the end of the process; that damage to the newest synced
// write is told from a torn one (nothing after it vouches for it, unless the log was closed cleanly).
//
// Concurrency: Log and Group may be used from any goroutine. The Appends of one group take effect in call order, so one
// goroutine should make them. Every done runs on the writer's goroutine, in order, and must not block.
package log
