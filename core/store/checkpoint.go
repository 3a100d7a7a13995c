package store

import (
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// job is a checkpoint on its way to disk.
type job struct {
	g     *Group
	batch *pebble.Batch
	at    mark
	bytes int
	gone  *keyRange // where the batch deletes much; nil if nowhere
	began time.Time
	done  func(error) // may be nil

	committed chan struct{} // closed when the batch is in Pebble, or has failed
	finished  chan struct{} // closed when err is known
	err       error
}

// Checkpoint collects what has changed since the last one, in the caller's goroutine, and writes it in the background.
// done is called, from the store's goroutine, when it is on disk or has failed. False, without effect, while one is
// under way.
func (g *Group) Checkpoint(done func(error)) bool {
	if g.job != nil {
		select {
		case <-g.job.finished:
		default:
			return false
		}
	}
	g.settle()
	g.begin(done)
	return true
}

// begin makes a job of what has changed and hands it to the writer, which takes jobs in order.
func (g *Group) begin(done func(error)) *job {
	g.job = &job{g: g, began: time.Now(), done: done, committed: make(chan struct{}), finished: make(chan struct{})}
	g.job.at = g.applied
	g.job.batch, g.job.gone = g.collect()
	g.job.bytes = g.job.batch.Len()
	g.db.enqueue(g.job)
	return g.job
}

// awaitJob waits until no checkpoint is under way.
func (g *Group) awaitJob() {
	if g.job != nil {
		<-g.job.finished
	}
}

// awaitCommit waits until the newest checkpoint is in Pebble, if not on disk: a batch committed now comes after it.
func (g *Group) awaitCommit() {
	if g.job != nil {
		<-g.job.committed
	}
}

// collect is one batch with all that has changed since the last one: it takes the state on disk from the last batch's
// applied index to this one's. gone is where it deletes much, nil if nowhere.
func (g *Group) collect() (b *pebble.Batch, gone *keyRange) {
	b = g.db.p.NewBatch()
	generation := g.where.Load().generation
	prefix := rowPrefix(g.id, generation)
	g.machineMu.Lock()
	g.m.Checkpoint(
		func(key, value []byte) {
			op := b.SetDeferred(len(prefix)+len(key), len(value))
			copy(op.Key[copy(op.Key, prefix):], key)
			copy(op.Value, value)
			op.Finish() // fails for indexed batches only
		},
		func(key []byte) {
			op := b.DeleteDeferred(len(prefix) + len(key))
			copy(op.Key[copy(op.Key, prefix):], key)
			op.Finish()
		})
	g.m.TakeReferences(g.refs.add, g.refs.drop)
	g.machineMu.Unlock()
	gone = g.collectDeletions(b, generation)
	state := stateMeta{generation: generation, index: g.applied.index, term: g.applied.term, hash: g.applied.hash, conf: g.conf}
	b.Set(metaKey(g.id, metaState), state.encode(), nil)
	return b, gone
}

// collectDeletions puts the contents that lost their last reference into the batch whose state has none.
func (g *Group) collectDeletions(b *pebble.Batch, generation uint64) (gone *keyRange) {
	r := &g.refs
	all := keyRange{contentKey(g.id, generation, 0), contentKey(g.id, generation, firstLoc(r.floor))}
	r.reclaim += len(r.dropped)
	empty := r.moved == 0 && len(r.dropped) > 0
	if empty || r.reclaim >= max(compactDropped, r.moved) {
		gone, r.reclaim = &all, 0
	}
	if empty {
		// One tombstone instead of one each.
		b.DeleteRange(all.start, all.end, nil)
	} else {
		for _, loc := range r.dropped {
			b.Delete(contentKey(g.id, generation, loc), nil)
		}
	}
	r.dropped = nil
	if r.unswept {
		b.Set(metaKey(g.id, metaSwept), encodeIndex(r.floor), nil)
		r.unswept = false
	}
	return gone
}

func (d *DB) enqueue(j *job) {
	d.mu.Lock()
	d.queue = append(d.queue, j)
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// write is the writer's goroutine: it commits what is queued and flushes once for all of it.
func (d *DB) write() {
	defer close(d.stopped)
	for stopping := false; ; {
		d.mu.Lock()
		jobs := d.queue
		d.queue = nil
		d.mu.Unlock()
		d.writeJobs(jobs)
		if len(jobs) > 0 {
			continue
		}
		if stopping {
			return
		}
		select {
		case <-d.wake:
		case <-d.stop:
			stopping = true
		}
	}
}

func (d *DB) writeJobs(jobs []*job) {
	if len(jobs) == 0 {
		return
	}
	for _, j := range jobs {
		j.err = d.apply(j.batch)
		j.batch.Close()
		j.batch = nil
		close(j.committed)
	}
	err := d.flush()
	for _, j := range jobs {
		if j.err == nil {
			j.err = err
		}
		j.finish()
	}
}

// finish tells everyone how it went.
func (j *job) finish() {
	if j.err == nil {
		j.g.marks.Lock()
		j.g.durable = j.at
		j.g.marks.Unlock()
		if j.gone != nil {
			j.g.db.wantCompaction(*j.gone)
		}
		if f := j.g.db.o.Metrics.Checkpoint; f != nil {
			f(j.g.id, j.bytes, time.Since(j.began).Seconds())
		}
	}
	close(j.finished)
	if j.done != nil {
		j.done(j.err)
	}
}
