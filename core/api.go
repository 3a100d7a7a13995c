package core

// This file is the contract between the machine and its surroundings; machine.go and apply_*.go carry it out.
//
//   New(group uint64) *Machine
//
//   (*Machine) Apply(index uint64, data []byte, fx *Effects) error
//       applies one entry (core/entry format; empty data is raft's own and only moves nothing). index is only used to
//       make Locs. Errors: entry.ErrUnknown, entry.ErrMalformed: the group must stop.
//   (*Machine) Stamp() int64                         newest stamp applied, Unix ms
//   (*Machine) NextDeadline() int64                  stamp at which a Tick is due, 0 for none
//   (*Machine) Incarnation(node uint64) (incarnation, nonce, seq uint64)
//   (*Machine) Fingerprint() uint64                  kept up incrementally; equal on all replicas
//   (*Machine) Recompute() uint64                    the same from scratch, for tests
//
//   Rows, for core/store. Keys are relative to the group; values carry Locs beside the state.
//   (*Machine) Checkpoint(put func(key, value []byte), del func(key []byte))   what changed since the last call
//   (*Machine) Load(key, value []byte) error         one row; rows come in key order, then:
//   (*Machine) Loaded() error                        after the last row: links everything together, recomputes the fingerprint
//   RowContents(key, value []byte, visit func(message.Loc, uint32)) error      content references in a row
//
//   Content liveness, for the log's reclamation
//   (*Machine) Live(from, to uint64) int             live content references with from <= Loc.Index() < to; cheap
//   (*Machine) Contents(from, to uint64, visit func(message.Loc, uint32))      each of them (once per reference)
//   (*Machine) SetFloor(index uint64)                contents below were moved out of the log: from now on their last
//   (*Machine) TakeDropped(visit func(message.Loc))  use is reported here (once per reference dropped)
//
//   Listings, for the admin API; plain value slices sorted by name:
//   (*Machine) Vhosts() []VhostInfo, Queues(vhost string) []QueueInfo, Exchanges, Bindings, Sessions, Consumers, ...
