// Package kombu runs programs with the Python libraries kombu (over py-amqp) and Celery, as anybody would write them,
// against the built broker.
//
// Guarantees: both are pinned releases from the Python package index, in a virtual environment that the test makes.
//
// Not guaranteed: anything about other versions of them or of Python; Celery's pools other than solo.
//
// Concurrency: every program is a process; a test talks to its own.
package kombu
