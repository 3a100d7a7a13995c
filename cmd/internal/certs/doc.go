// Package certs makes TLS settings from PEM files that are read again when they change, so that a renewed certificate
// needs no restart.
//
// Guarantees: a handshake uses the files as they are; files that have become unreadable or do not fit each other leave
// the last good ones in use and are reported once per change.
//
// Not guaranteed: that connections made earlier learn of a change.
//
// Concurrency: safe for any number of handshakes.
package certs
