// Package link is the place of the standby link: a second cluster that replays every committed entry of the first, so
// that after a promotion clients go on where they were.
//
// Nothing of it is built yet; the folder stands so that the layers are complete. What will live here: the source's side
// (which hands committed entries and log holds to readers), the follower (which applies them in another cluster), the
// seed, promotion and the position of each group.
//
// Guarantees: none so far.
//
// Not guaranteed: anything; no package imports this one.
//
// Concurrency: no code, no rules.
package link
