package store

import (
	"context"
)

// Pebble reclaims space when its levels ask for it, which a store that has become quiet and nearly empty may never do:
// a tombstone weighs little, however much it covers. So where much was deleted, the store asks for a compaction itself.

// keyRange is a range of keys.
type keyRange struct{ start, end []byte }

// compactor runs the compactions that were asked for, one at a time.
type compactor struct {
	wake    chan struct{} // capacity 1
	stopped chan struct{}
	cancel  context.CancelFunc
	wanted  map[string]keyRange // by start; guarded by DB.mu
}

func (d *DB) startCompactor() {
	ctx, cancel := context.WithCancel(context.Background())
	d.compactor = compactor{
		wake: make(chan struct{}, 1), stopped: make(chan struct{}), cancel: cancel, wanted: map[string]keyRange{},
	}
	go d.compact(ctx)
}

// wantCompaction has the space of what was deleted in s reclaimed in the background.
func (d *DB) wantCompaction(s keyRange) {
	d.mu.Lock()
	d.compactor.wanted[string(s.start)] = s
	d.mu.Unlock()
	select {
	case d.compactor.wake <- struct{}{}:
	default:
	}
}

func (d *DB) compact(ctx context.Context) {
	defer close(d.compactor.stopped)
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.compactor.wake:
		}
		d.mu.Lock()
		wanted := d.compactor.wanted
		d.compactor.wanted = map[string]keyRange{}
		d.mu.Unlock()
		for _, s := range wanted {
			// A failure is Pebble's to report: it goes to backgroundError too.
			if d.p.Compact(ctx, s.start, s.end, false) != nil && ctx.Err() != nil {
				return
			}
		}
	}
}

// compactDropped is how many dropped contents are worth a compaction, if it is also half of them.
const compactDropped = 4096
