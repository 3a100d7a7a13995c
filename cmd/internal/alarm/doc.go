// Package alarm judges whether a node runs short of memory or disk, so that publishers can be made to wait in time.
//
// Guarantees: judging is a pure function of what the gauges show, of the limits, and of the alarms before; an alarm that is
// on goes off only when its gauge is clear of the limit by some way, so that it does not flutter. A gauge that cannot be
// read raises nothing.
//
// Not guaranteed: that memory or disk suffices until publishers have stopped; that is for the limits to see to.
//
// Concurrency: pure functions; a Gauges may be called from any goroutine.
package alarm
