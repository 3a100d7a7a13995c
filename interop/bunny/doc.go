// Package bunny runs programs with the Ruby client bunny, as anybody would write them, against the built broker.
//
// Guarantees: the library is Debian's package ruby-bunny. The programs know of the broker only its addresses.
//
// Not guaranteed: anything about other versions of it or of Ruby.
//
// Concurrency: every program is a process; a test talks to its own.
package bunny
