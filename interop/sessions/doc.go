// Package sessions tests what outlives a connection, from outside: named sessions over raw frames and through session/resume,
// on three nodes whose connections are cut, taken over and killed.
//
// Guarantees: a conversation's trace has everything that an application sees, and nothing of the connections underneath, so that
// one that was cut and resumed anywhere is the same as one that was not. Every wait is bounded.
//
// Not guaranteed: that a cut falls on the same octet of the conversation twice: the broker's answers gather as they may.
//
// Concurrency: a talk belongs to one goroutine; many run at once over one cluster.
package sessions
