// Package wire is the octets of AMQP 0-9-1: frames, content headers and the arguments of methods.
//
// Guarantees: decoding takes no memory for what a length field promises, only views of octets that are there (and a
// string per name that is there); it never panics. Field tables are passed on as octets. The methods that come once per
// message are decoded and appended without allocation.
//
// Not guaranteed: that a field table or a property list is well-formed (package message checks those), or that a method
// is allowed where it came.
//
// Concurrency: values and pure functions.
package wire

//go:generate go run ./internal/gen methods.go internal/gen/amqp0-9-1.stripped.extended.xml internal/gen/access.xml
