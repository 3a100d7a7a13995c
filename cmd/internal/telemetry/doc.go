// Package telemetry is what a node tells its operators: its log lines and its metrics.
//
// Guarantees: one registry per Metrics, handed in, never the library's global one. Names that RabbitMQ has mean what
// RabbitMQ means by them; what we cannot fill truthfully is absent, not zero. A scrape reads counters and the groups'
// status; it never waits for a disk or another node.
//
// Not guaranteed: that the numbers of one scrape are of one moment.
//
// Concurrency: everything may be called from any goroutine.
package telemetry
