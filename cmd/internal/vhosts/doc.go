// Package vhosts says what is left to do until the system group and the data groups agree on which vhosts there are.
//
// Guarantees: Plan is a function of what the groups hold and of nothing else. Carrying out any part of a plan, in any
// order, twice or late, and planning again from what is there then, comes to an end at which each vhost that is registered
// is held by its group, under its registered name, and no vhost that was buried is held by any. A vhost that a group holds
// and that was never buried is in no plan to be deleted.
//
// Not guaranteed: that what it was given is up to date. Commands of an outdated plan do nothing, or are undone by a later one.
//
// Concurrency: none of its own; Plan may be called from any goroutine.
package vhosts
