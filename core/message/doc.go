// Package message is the form in which a message's content is kept: the publisher's own bytes, with just enough
// structure around them to route and to deliver, and the field table codec that arguments and headers are written in.
//
// Guarantees: content is immutable; what was published is delivered byte for byte. Decoders bound depth, element count
// and allocation before they take memory, and never panic.
//
// Not guaranteed: that a record's properties are well-formed beyond their length; the endpoint that took them in checks.
//
// Concurrency: values and pure functions.
package message
