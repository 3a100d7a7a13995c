// Package differential walks two brokers through the same random conversations and compares all that they say.
//
// A conversation is made from a seed: moves of one or a few methods over two connections with two channels each, right ones and
// wrong ones, about a handful of queues and exchanges. Behind each move both brokers are asked until they have said the same: replies,
// codes and texts, deliveries of each queue in their order, returns, confirms, and the counts of every queue; at the end also what is left in
// the queues. What they do not agree on within Pair.Patience is a difference. Shrink leaves out of its conversation what it does not need.
//
// Guarantees: a seed makes the same conversation again, as long as the second broker says the same. A difference between the brokers in
// what is compared is found, be it in one word of a reply (the tests plant such). What they may differ in is listed in accepted.go.
//
// Not guaranteed: anything about what depends on time (expiry, time-outs), about the order in which messages of different queues
// come to one channel (such a conversation is broken off as unclear), and about what the conversation does not come to.
//
// Concurrency: a Pair plays one conversation at a time; several Pairs with vhosts of their own may play at once.
package differential
