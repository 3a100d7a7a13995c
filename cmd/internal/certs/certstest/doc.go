// Package certstest makes certificates for tests.
//
// Guarantees: each certificate is new, with a serial number of its own, and valid for an hour for the name localhost.
//
// Not guaranteed: anything that a real authority must give; keys lie about in the test's folder.
//
// Concurrency: an Authority belongs to one goroutine.
package certstest
