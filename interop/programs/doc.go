// Package programs runs programs that are written with a client library in its own language, and judges what they print.
// Every family of clients has the same programs, so that what is asked of one is asked of all:
//
//	basics              one conversation through every part of the protocol, a line per step; see transcript
//	failover COUNT      publishes COUNT numbered messages with confirms and consumes them while a node dies; see Failover
//	session             works in a named session while nodes die, and a whole cluster; see Session and TakeOver
//	hello, work, logs, rpc, confirms     RabbitMQ's tutorials 1 to 7; see Tutorials
//
// A program finds the broker in AMQP_URL; where there are several nodes, they are in AMQP_URLS (separated by commas), and
// AMQP_BALANCED is a balancer before them. It knows nothing else of the broker. With INTEROP_FRAMES=DIR in the tests'
// environment each of them is a balancer, and every frame is written down in the folder, which is to exist.
//
// Guarantees: a program that prints anything but what it should, a traceback for instance, fails the test with the whole
// of what it said. No program outlives its test. Install leaves either a complete folder or none that is used.
//
// Not guaranteed: how fast a client reconnects; it must within a minute.
//
// Concurrency: a Program belongs to one test. Several test processes may install the same thing at once.
package programs
