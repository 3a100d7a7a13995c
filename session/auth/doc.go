// Package auth judges who a client is. Every way in (AMQP, the admin API) asks the same Authenticator; how name and
// password came over the wire is the caller's matter.
//
// Guarantees: a blank password never logs in. A user marked LoopbackOnly logs in from loopback peers only, by the address
// of the peer, whatever address was listened on. A refusal tells a client nothing about its reason, and takes the same
// steps for an unknown user as for a wrong password; hashes are compared in constant time. Failed attempts are limited
// per source and per user, in bounded memory. A flood of wrong passwords does not lock out a user where they were
// logging in before.
//
// Not guaranteed: that a user under such a flood can log in from a new place while it lasts; what an identity may do.
//
// Concurrency: an Authenticator is safe for use by any number of goroutines.
package auth
