//go:build !interop

package programs

// takeOverNodes is how many nodes source and standby of TakeOver have: one in the run that a machine of two cores does all
// the time, three in `make interop`.
const takeOverNodes = 1
