// Package php runs programs with php-amqplib, as anybody would write them, against the built broker.
//
// Guarantees: the library is Debian's package php-amqplib. The programs know of the broker only its addresses.
//
// Not guaranteed: anything about other versions of it or of PHP.
//
// Concurrency: every program is a process; a test talks to its own.
package php
