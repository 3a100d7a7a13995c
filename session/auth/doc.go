// Package auth judges who a client is and what it may do. Every way in (AMQP, the admin API) asks the same Authenticator and
// the same Registry; how name and password came over the wire is the caller's matter.
//
// Guarantees: a blank password never logs in. A user marked LoopbackOnly logs in from loopback peers only, by the address
// of the peer, whatever address was listened on. A refusal tells a client nothing about its reason, and costs a slow hash
// whatever was wrong; hashes are compared in constant time. Failed attempts are limited per source and per user, in bounded
// memory. A flood of wrong passwords does not lock out a user where they were logging in before. Passwords set here are
// kept as slow hashes; those of RabbitMQ's definitions are taken as they are. A decision of an Access is by the newest
// state of its Registry, also one that it remembers; patterns match in linear time. What a user was permitted does not
// pass to a later user of the same name.
//
// Not guaranteed: that a user under such a flood can log in from a new place while it lasts; that the Registry is the
// newest state of the cluster, which is for its owner to see to.
//
// Concurrency: an Authenticator and a Registry are safe for use by any number of goroutines; an Access belongs to one, but
// for the methods that say otherwise.
package auth
