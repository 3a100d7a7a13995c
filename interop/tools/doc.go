// Package tools drives RabbitMQ's own tools and what other tools ask of its HTTP API against the built broker: rabbitmqadmin as
// Debian's rabbitmq-server ships it, rabbit-hole v2 (the client of the Terraform provider), PerfTest, the fields that Flower, KEDA and
// exporters read, the metrics of RabbitMQ's dashboards, and definitions carried to RabbitMQ and back. It also runs the tests of
// cases against RabbitMQ.
//
// Guarantees: the same programs and tables are run against a RabbitMQ that the tests start on ports of their own: what is asked of
// the broker is what RabbitMQ does.
//
// Not guaranteed: anything about other versions than the pinned ones of rabbit-hole and PerfTest and the one of rabbitmq-server that is installed.
//
// Concurrency: the tests run one after the other; every broker is a process of its own.
package tools
