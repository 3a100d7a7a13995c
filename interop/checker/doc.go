// Package checker keeps the history of a load on a broker and judges it: what was confirmed must come, once, in order and
// unchanged.
//
// Guarantees: a History that Check finds good has no message that was confirmed and is missing, none that nobody
// published or that was refused, none that the broker doubled, none out of its order and none with another body. The
// rules are under Report. What CheckMixed finds good has each confirmed message consumed, or a dead letter for a reason that
// its queue has, or dropped for newer ones where that may be; transactions whole; and the drain by priority.
//
// Not guaranteed: anything about publishes whose outcome is unknown (their connection broke first): they may have come
// or not, but never twice. A stale delivery is excused: a node that was stopped after it handed a message to a socket's
// buffer says so late, and no broker can take that back; it counts only if its consumer was heard of again.
//
// Concurrency: each Producer and each Consumer belongs to one goroutine, their counters may be read from any. Check is
// called once they have all ended.
package checker
