// Command gen writes the method structs of package wire from the specification's XML. It is run by go generate in
// package wire; arguments: the output file, then the specification files.
//
// Guarantees: the same files give the same output; a field of a type that it does not know stops it.
//
// Not guaranteed: sense in the specification: it is trusted.
//
// Concurrency: one goroutine, one run.
package main
