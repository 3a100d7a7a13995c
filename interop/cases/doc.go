// Package cases holds what others' bug reports taught: one test per report, over raw frames, against the built broker.
//
// The reports are of RabbitMQ, LavinMQ, Artemis and their clients. A test's name begins with the report's number in one of
// the sections A topology and routing, B frames and connections, C delivery and acknowledgement, D confirms, returns and
// transactions, E dead letters, expiry, limits and priorities, S sessions and deduplication; its steps state the case in full. Names
// that begin with Walk are of what a random walk beside RabbitMQ has found here.
//
// Guarantees: every report has a test, here or where interop/README.md says; each states the right behaviour as the frames that
// must come. With INTEROP_AMQP_URL the same tests run
// against another broker; where RabbitMQ and Understudy differ on purpose, the table in differences_test.go holds both answers
// and the reason, and a difference that has disappeared fails.
//
// Not guaranteed: parts of reports that need what does not exist; interop/README.md lists them with the reason.
//
// Concurrency: the tests share one node and use queues and exchanges of their own.
package cases
