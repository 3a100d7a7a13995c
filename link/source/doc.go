// Package source is a source node's side of the standby link: it answers, on the link port, what a standby asks.
//
// Guarantees: an answer holds only entries that this node has applied, in order, each one whole. Without a token configured
// every route answers 404; a wrong or missing token 401, and on the routes that drain and fence a token that may only read
// 403. Tokens are compared in constant time and read again when their file changes. A request's size, the entries of one
// answer, and the time it waits are bounded. Every read and beat is noted, so that the log is kept for its reader.
//
// Not guaranteed: that an answer arrives; the position of the next request says what did. That a reader is who it says:
// whoever has a token may use any reader's name.
//
// Concurrency: a Server is safe from any goroutine.
package source
