// Package java runs programs with RabbitMQ's client for Java and with Spring AMQP's listener container, as anybody would
// write them, against the built broker.
//
// Guarantees: both are pinned releases from Maven's central repository (programs/pom.xml). The programs know of the broker
// only its addresses.
//
// Not guaranteed: anything about other versions of them or of Java (17 or later).
//
// Concurrency: every program is a process; a test talks to its own.
package java
