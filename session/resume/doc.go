// Package resume keeps an application's conversation with Understudy going over any number of lost connections, dead nodes and
// promotions. It dials with github.com/rabbitmq/amqp091-go and asks for a named session; the application publishes and consumes
// and has no code for failover.
//
// A Session holds one connection at a time, to one of several addresses. Publishers and Consumers have a channel of their own
// each, under a number that they keep. Whatever else a channel can do (declare, bind, delete) goes through Do.
//
// Guarantees: a message that Publish took is in the broker once, whatever happened on the way, when its Receipt is done without an
// error; the messages of one Publisher are enqueued in the order of their Publish calls. A delivery is handed to the
// application once while it works on it and after it has acknowledged it, and its settlement reaches the broker. After a
// promotion what was confirmed or settled in the last moments before the source was lost (Options.Replay) is published and settled
// again, so that a standby that had not heard of it loses nothing; a Consumer that has worked off such a message is not handed it
// again, if a Publisher of this package published it. A Session does not go back to a source whose standby it has met promoted.
//
// Not guaranteed: anything across the end of the process (its outbox is in memory), or of the session: one that was away for
// longer than its expiry starts anew, its exclusive queues gone and its deliveries back in their queues. Options.Setup
// declares them again. A consumer that is given back a message (by requeue, or by a session's expiry) sees it again.
//
// Concurrency: all methods may be called from any goroutine. Options.Setup and Options.Events must not call back.
package resume
