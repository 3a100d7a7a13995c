package core

// NewFrugal makes a Machine whose entries let go of two messages at most, so that small tests see what takes many entries.
func NewFrugal(group uint64) *Machine {
	m := New(group)
	m.bounds.clears = 2
	return m
}

// CascadeMost is how many dead letters of dead letters a command makes.
const CascadeMost = cascadeMost
