//go:build interop

package programs

// takeOverNodes is how many nodes source and standby of TakeOver have.
const takeOverNodes = 3
