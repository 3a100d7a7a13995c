// Package audit keeps a node's record of who came in, who was turned away and who changed what users may do: one JSON
// object a line, appended to a file.
//
// Guarantees: a line that was kept (Keep) outlasts a power cut, and all before it. One that was noted (Note) is synced at once
// or a tenth of a second after what was synced before it: a power cut, and a process that is killed, take the lines of a moment at most.
// The files take a bounded amount of disk; the oldest lines go first. No line holds a password, a hash or content of a message. A
// line is whole: what a power cut tore goes at the next start, with a warning. Note never waits for the disk, and takes a
// bounded amount of memory.
//
// Not guaranteed: a line that cannot be written, or noted while the disk stands still and a MiB waits for it, is told to the
// logger and is lost: nobody is turned away for it.
//
// Concurrency: a Log is safe for use by any number of goroutines.
package audit
