package core

// NewFrugal makes a Machine whose entries let go of two messages at most, so that small tests see what takes many entries.
func NewFrugal(group uint64) *Machine {
	m := New(group)
	m.bounds.clears = 2
	return m
}
