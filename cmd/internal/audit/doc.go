// Package audit keeps a node's record of who came in, who was turned away and who changed what users may do: one JSON
// object a line, appended to a file.
//
// Guarantees: the files take a bounded amount of disk; the oldest lines go first. No line holds a password, a hash or
// content of a message. A line is written whole.
//
// Not guaranteed: that the last lines survive a power loss. A line that cannot be written is told to the logger and is
// lost: nobody is turned away for it.
//
// Concurrency: a Log is safe for use by any number of goroutines.
package audit
