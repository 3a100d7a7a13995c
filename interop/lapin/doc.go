// Package lapin runs programs with the Rust client lapin, as anybody would write them, against the built broker.
//
// Guarantees: lapin and all that it depends on are the releases that programs/Cargo.lock pins.
//
// Not guaranteed: anything about other versions of it or of Rust (1.88 or later).
//
// Concurrency: every program is a process; a test talks to its own.
package lapin
