package queue

import (
	"runtime"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"
)

// model is the obvious list: one sorted slice.
type model struct {
	refs []Ref
	rows map[uint32][]Ref
}

func (m *model) push(r Ref) {
	i := sort.Search(len(m.refs), func(i int) bool { return m.refs[i].Number > r.Number })
	m.refs = slices.Insert(m.refs, i, r)
}

func contents(l *List) []Ref {
	var all []Ref
	l.Each(func(r Ref) { all = append(all, r) })
	return all
}

// reload makes the list anew from its rows, as a restart does.
func (m *model) reload(l *List, p *Pool) *List {
	m.checkpoint(l)
	var n List
	for id := uint32(0); id <= l.lastID; id++ {
		if refs, ok := m.rows[id]; ok {
			n.Load(p, id, refs)
		}
	}
	n.Loaded(l.First())
	return &n
}

func (m *model) checkpoint(l *List) {
	l.Changes(
		func(id uint32, refs []Ref) { m.rows[id] = slices.Clone(refs) },
		func(id uint32) { delete(m.rows, id) })
}

func TestListBehavesAsASortedSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, l := &Pool{}, &List{}
		m := &model{rows: map[uint32][]Ref{}}
		var out []Ref
		next := uint64(0)
		push := func(n int) {
			for ; n > 0; n-- {
				next++
				r := Ref{Number: next, Loc: next * 7, Size: uint32(next), Flags: 1}
				l.Push(p, r)
				m.push(r)
			}
		}
		pop := func(n int) {
			for ; n > 0 && len(m.refs) > 0; n-- {
				r := l.Pop(p)
				if r != m.refs[0] {
					t.Fatalf("popped %v, want %v", r, m.refs[0])
				}
				m.refs = m.refs[1:]
				out = append(out, r)
			}
		}
		giveBack := func(i int) {
			l.Push(p, out[i])
			m.push(out[i])
			out = slices.Delete(out, i, i+1)
		}
		for step := rapid.IntRange(1, 60).Draw(t, "steps"); step > 0; step-- {
			n := rapid.SampledFrom([]int{1, 3, 20, 300, 1500}).Draw(t, "n")
			switch rapid.IntRange(0, 6).Draw(t, "op") {
			case 0, 1:
				push(n)
			case 2:
				pop(n)
			case 3: // newest first, as a closing channel does
				for ; n > 0 && len(out) > 0; n-- {
					giveBack(len(out) - 1)
				}
			case 4:
				for ; n > 0 && len(out) > 0; n-- {
					giveBack(rapid.IntRange(0, len(out)-1).Draw(t, "which"))
				}
			case 5:
				m.checkpoint(l)
			case 6:
				l = m.reload(l, p)
			}
			first := uint64(0)
			if len(m.refs) > 0 {
				first = m.refs[0].Number
			}
			if l.Len() != len(m.refs) || l.First() != first {
				t.Fatalf("%d messages from %d on, want %d from %d on", l.Len(), l.First(), len(m.refs), first)
			}
		}
		if got := contents(l); !slices.Equal(got, m.refs) {
			t.Fatalf("holds %v, want %v", got, m.refs)
		}
	})
}

func TestChunkBornAndDrainedBetweenCheckpointsIsNeverWritten(t *testing.T) {
	p, l := &Pool{}, &List{}
	written := 0
	count := func(uint32, []Ref) { written++ }
	never := func(uint32) { t.Error("nothing was stored, so nothing is deleted") }
	for i := uint64(1); i <= 10*ChunkRefs; i++ {
		l.Push(p, Ref{Number: i})
	}
	for l.Len() > 1 {
		l.Pop(p)
	}
	l.Changes(count, never)
	if written != 1 {
		t.Errorf("%d chunks written, want 1", written)
	}
	l.Pop(p)
	l.Push(p, Ref{Number: 10*ChunkRefs + 1})
	deleted := 0
	l.Changes(count, func(uint32) { deleted++ })
	if written != 2 || deleted != 1 {
		t.Errorf("written %d, deleted %d; want 2 and 1", written, deleted)
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	p, l := &Pool{}, &List{}
	number := uint64(0)
	round := func() {
		for range 3 * ChunkRefs {
			number++
			l.Push(p, Ref{Number: number})
		}
		for l.Len() > 2 {
			l.Pop(p)
		}
	}
	for range 5 {
		round()
	}
	if n := testing.AllocsPerRun(50, round); n != 0 {
		t.Errorf("%.1f allocations per %d messages, want none", n, 3*ChunkRefs)
	}
}

func TestEmptyListKeepsNoMoreThanASmallChunk(t *testing.T) {
	p, l := &Pool{}, &List{}
	for i := uint64(1); i <= 100*ChunkRefs; i++ {
		l.Push(p, Ref{Number: i})
	}
	for l.Len() > 0 {
		l.Pop(p)
	}
	kept := 0
	for _, c := range l.chunks {
		kept += cap(c.refs)
	}
	if kept > classes[0] || cap(l.chunks) > classes[1] {
		t.Errorf("an empty list keeps %d references and %d chunk slots", kept, cap(l.chunks))
	}
}

func TestReadyMessageTakesTwentyFourBytes(t *testing.T) {
	p, l := &Pool{}, &List{}
	const n = 1_000_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := uint64(1); i <= n; i++ {
		l.Push(p, Ref{Number: i})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := float64(after.HeapAlloc-before.HeapAlloc) / n; each > 24.5 {
		t.Errorf("%.1f bytes per message, want 24 and little more", each)
	}
	runtime.KeepAlive(l)
}

// TestADetachedListTakesTheRowsAlongThatItMustDelete: a chunk may have been emptied and filled again since its row was
// written. Whoever reports the detached list reports the deletion, and it comes before the new row.
func TestADetachedListTakesTheRowsAlongThatItMustDelete(t *testing.T) {
	var p Pool
	var l List
	put, del := func(uint32, []Ref) {}, func(uint32) {}
	l.Push(&p, Ref{Number: 1})
	l.Changes(put, del)
	l.Pop(&p)
	l.Push(&p, Ref{Number: 2})
	all, _ := l.Detach()
	l.Changes(func(id uint32, _ []Ref) { t.Errorf("row %d of an empty list", id) }, func(id uint32) { t.Errorf("the rest deletes row %d", id) })
	rows := map[uint32]bool{1: true}
	all.Changes(func(id uint32, _ []Ref) { rows[id] = true }, func(id uint32) { delete(rows, id) })
	if len(rows) != 1 {
		t.Errorf("rows %v of a list of one message", rows)
	}
}

func TestChunksOfALoadedListAreBehindThoseThatWereDetached(t *testing.T) {
	var p Pool
	var l List
	l.Behind(7)
	l.Push(&p, Ref{Number: 1})
	l.Changes(func(id uint32, _ []Ref) {
		if id <= 7 {
			t.Errorf("chunk has id %d", id)
		}
	}, func(uint32) {})
}
