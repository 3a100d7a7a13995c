// Package config is a node's settings: where they come from, what they mean, and whether they make sense.
//
// Guarantees: defaults < YAML file < environment (UNDERSTUDY_*) < flags. A key of the file that nobody knows is
// a fault, not ignored. Validate lists every fault at once. What YAML prints, a file reads back as the
// same settings. A flag that is here does something.
//
// Not guaranteed: that an address can be bound or that a certificate matches its key; the start finds that out.
//
// Concurrency: a Config is a value; it does not change after Load.
package config
