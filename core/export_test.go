package core

// NewFrugal makes a Machine whose entries let go of two messages at most, so that small tests see what takes many entries.
func NewFrugal(group uint64) *Machine {
	m := New(group)
	m.bounds.clears = 2
	return m
}

// NewNarrow makes a Machine with very low bounds of everything, so that small tests meet them.
func NewNarrow(group uint64) *Machine {
	m := New(group)
	m.bounds = bounds{queues: 12, exchanges: 13, bindings: 30, consumers: 4, copies: 2, windowIDs: 300, groupIDs: 600, numbering: 3,
		tombstones: 3, clears: 2, dues: 3, trims: 2, cascades: 4}
	return m
}

// CascadeMost is how many dead letters of dead letters a command makes.
var CascadeMost = ourBounds.cascades
