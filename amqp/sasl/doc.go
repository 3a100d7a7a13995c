// Package sasl reads the responses of the SASL mechanisms that clients log in with: PLAIN (RFC 4616), AMQPLAIN
// and EXTERNAL (RFC 4422).
//
// Guarantees: malformed responses are errors, never panics; a response is bounded by the caller's frame.
//
// Not guaranteed: that the credentials are right; that is package auth's.
//
// Concurrency: pure functions.
package sasl
