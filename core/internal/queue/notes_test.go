package queue

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestNotesBehaveAsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, l, want, rows := &Pool{}, &Notes{}, map[uint64]Note{}, map[uint32][]Note{}
		next := uint64(0)
		checkpoint := func() {
			l.Changes(func(id uint32, notes []Note) { rows[id] = slices.Clone(notes) }, func(id uint32) { delete(rows, id) })
		}
		remove := func(number uint64) {
			got, ok := l.Remove(p, number)
			if x, there := want[number]; ok != there || got != x {
				t.Fatalf("removed %v %v at %d, want %v %v", got, ok, number, x, there)
			}
			delete(want, number)
		}
		for step := rapid.IntRange(1, 40).Draw(t, "steps"); step > 0; step-- {
			n := rapid.SampledFrom([]int{1, 2, 10, 100, 600}).Draw(t, "n")
			switch rapid.IntRange(0, 5).Draw(t, "op") {
			case 0, 1:
				for ; n > 0; n-- {
					next += rapid.Uint64Range(1, 3).Draw(t, "gap")
					x := Note{Number: next, Expires: int64(next) * 2, Body: next * 3}
					l.Add(p, x)
					want[next] = x
				}
			case 2:
				for _, number := range slices.Sorted(maps.Keys(want))[:min(n, len(want))] {
					remove(number)
				}
			case 3:
				for ; n > 0; n-- {
					remove(rapid.Uint64Range(0, next+1).Draw(t, "number"))
				}
			case 4:
				checkpoint()
			case 5:
				checkpoint()
				l = &Notes{}
				for _, id := range slices.Sorted(maps.Keys(rows)) {
					l.Load(id, rows[id])
				}
			}
			for number := uint64(0); number <= next+1; number += 1 + next/50 {
				x, ok := l.Get(number)
				if y, there := want[number]; ok != there || x != y {
					t.Fatalf("note of %d is %v %v, want %v %v", number, x, ok, y, there)
				}
			}
			var all []uint64
			l.Each(func(x Note) { all = append(all, x.Number) })
			if !slices.Equal(all, slices.Sorted(maps.Keys(want))) || l.Len() != len(want) {
				t.Fatalf("%d notes %v, want %d", l.Len(), all, len(want))
			}
		}
	})
}

func TestNotesOfASteadyQueueAllocateNothing(t *testing.T) {
	p, l, number := &Pool{}, &Notes{}, uint64(0)
	round := func() {
		for range 3 * ChunkNotes {
			number++
			l.Add(p, Note{Number: number})
		}
		for n := number - uint64(l.Len()) + 1; l.Len() > 2; n++ {
			l.Remove(p, n)
		}
	}
	for range 5 {
		round()
	}
	if n := testing.AllocsPerRun(50, round); n != 0 {
		t.Errorf("%.1f allocations per %d notes, want none", n, 3*ChunkNotes)
	}
}
