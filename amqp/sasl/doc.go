// Package sasl reads the responses of the SASL mechanisms that clients log in with: PLAIN (RFC 4616) and AMQPLAIN.
//
// Guarantees: malformed responses are errors, never panics; a response is bounded by the caller's frame.
//
// Not guaranteed: that the credentials are right; that is package auth's.
//
// Concurrency: pure functions.
package sasl
