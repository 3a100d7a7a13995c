// Package gate holds back what a node tells the clients of some vhosts until a standby has it too: the confirm modes
// "sync" and "bounded" of the vhosts' policies.
//
// It stands between a group's machine and the session.Broker: each run of effects passes Dispatch, from the apply goroutine.
// For a vhost in mode sync, replies, confirms and what follows them on the same channel wait for the named standby's
// position to reach the entries that they come of, and the system group's entries that were applied by then; what is
// delivered to a channel that waits for nothing goes through, and so do replies to opening and consuming. A vhost in mode bounded waits in the same way while the
// standby is further behind than its policy has it, until it has come to half of that, so that what was confirmed is never older; Slow
// names the vhosts whose publishers have to wait for as long.
//
// Which standby is waited for, and whether at all, is in the group's machine (core.Link). Decide, called regularly, has
// the group's leader propose each change: the first standby that has caught up after the policy was set holds the gate; one
// that is absent for longer than the policy allows degrades it, until it has caught up again. Without a standby that ever
// caught up nothing waits.
//
// Guarantees: the effects of a channel keep their order. While no vhost of a group waits, Dispatch costs one atomic load
// a run. What is held is let go on every change that ends the waiting.
//
// Not guaranteed: a bound on memory of its own; clients that publish without waiting for confirms are bounded by merging
// confirms, and the rest by what their windows allow.
//
// Concurrency: safe from any goroutine, but Dispatch is called by one at a time for each group.
package gate
