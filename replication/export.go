package replication

import (
	"context"
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"
)

// Export is a snapshot of a group for a standby that begins with it, and where in the group's log it stands: entry Index
// of Term, the rolling hash up to it, and the state's stamp (Unix ms) and fingerprint there.
type Export struct {
	Snapshot
	Hash        uint64
	Stamp       int64
	Fingerprint uint64
	unpin       func()
}

// Close lets go of the snapshot and of the log that it reads.
func (e *Export) Close() error {
	if e.unpin != nil {
		defer e.unpin()
	}
	return e.Snapshot.Close()
}

// Export cuts a snapshot of what this node has applied. It must be closed: the log keeps all that it has until then. The
// entries that follow are kept for longer by a Hold made before. Errors: the group has stopped, or ctx ended.
func (g *Group) Export(ctx context.Context) (*Export, error) {
	e := &Export{unpin: g.env.pin(g.id, 0)}
	done := make(chan error, 1)
	g.apply.put(work{task: func(m Machine) { done <- e.cut(m) }})
	select {
	case err := <-done:
		if err != nil {
			e.unpin()
			return nil, fmt.Errorf("group %d: cut a snapshot: %w", g.id, err)
		}
		return e, nil
	case <-ctx.Done():
		go func() { // it is cut all the same
			if <-done == nil {
				_ = e.Close()
			} else {
				e.unpin()
			}
		}()
		return nil, ctx.Err()
	}
}

func (e *Export) cut(m Machine) (err error) {
	if m == nil {
		return errStoppedGroup
	}
	if e.Snapshot, err = m.Snapshot(); err != nil {
		return err
	}
	_, e.Hash = m.RollingHash()
	e.Stamp, e.Fingerprint = m.Stamp(), m.Fingerprint()
	return nil
}

// FirstMembership is the membership (a Machine's Conf) of a group that begins with one member, which listens for its
// peers at address.
func FirstMembership(id uint64, address string) []byte {
	m := membership{
		raft:      &pb.ConfState{Voters: []uint64{id}, AutoLeave: new(false)},
		addresses: map[uint64]string{id: address},
	}
	return m.encode()
}
