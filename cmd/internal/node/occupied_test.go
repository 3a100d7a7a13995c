package node

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// peers are nodes that answer a roll, by what is attached to them; one that is not there says nothing until its time is up.
type peers struct {
	attached map[uint64][]uint64
	slow     time.Duration
	asked    []int // how many sessions each question was about
}

func (p *peers) ask(ctx context.Context, node uint64, sessions []sessionRef) ([]bool, error) {
	p.asked = append(p.asked, len(sessions))
	attached, there := p.attached[node]
	if !there {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	time.Sleep(p.slow)
	here := make([]bool, len(sessions))
	for i, s := range sessions {
		here[i] = slices.Contains(attached, s.Session)
	}
	return here, nil
}

// waited is how long a declaration waits for a queue of session 7 at node 2.
func waited(r *roll, occupant func() (uint64, sessionRef, bool)) time.Duration {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r.await(ctx, 2, sessionRef{1, 7}, occupant)
	return time.Since(began)
}

func TestADeclarationWaitsUntilItsQueuesNodeSaysThatTheOwnerIsThere(t *testing.T) {
	type occupant = func() (uint64, sessionRef, bool)
	stays := func() (uint64, sessionRef, bool) { return 2, sessionRef{1, 7}, true }
	freeAfter := func(d time.Duration) occupant {
		var began time.Time
		return func() (uint64, sessionRef, bool) {
			if began.IsZero() {
				began = time.Now()
			}
			return 2, sessionRef{1, 7}, time.Since(began) < d
		}
	}
	for _, c := range []struct {
		name     string
		attached map[uint64][]uint64
		occupant occupant
		least    time.Duration
		most     time.Duration
	}{
		{"it says so", map[uint64][]uint64{2: {7}}, stays, 0, 0},
		{"it says nothing", nil, stays, 10 * time.Second, 10 * time.Second},
		{"it says that it has another one", map[uint64][]uint64{2: {6, 8}}, stays, 10 * time.Second, 10 * time.Second},
		{"another node has one of that number", map[uint64][]uint64{2: {}, 3: {7}}, stays, 10 * time.Second, 10 * time.Second},
		{"it has gone, and the queue comes free", map[uint64][]uint64{2: {}}, freeAfter(time.Second), time.Second, time.Second + 2*occupantLook},
		{"it says nothing, and the queue comes free", nil, freeAfter(4 * time.Second), 4 * time.Second, 4*time.Second + 2*occupantLook},
		{"another client has the queue next", map[uint64][]uint64{2: {}, 3: {9}}, func() (uint64, sessionRef, bool) {
			return 3, sessionRef{1, 9}, true
		}, occupantLook, 2 * occupantLook},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRoll((&peers{attached: c.attached}).ask)
				if d := waited(r, c.occupant); d < c.least || d > c.most {
					t.Errorf("it waited %v, want %v to %v", d, c.least, c.most)
				}
				time.Sleep(rollTimeout) // the last question's
			})
		})
	}
}

func TestThoseWhoAskWhileAQuestionIsUnderWayShareTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peers{attached: map[uint64][]uint64{2: nil, 3: nil}, slow: 100 * time.Millisecond}
		r := newRoll(p.ask)
		first := r.call(2, sessionRef{1, 7})
		synctest.Wait()
		p.attached[2] = []uint64{7}
		var later []*rollCall
		for i := range uint64(100) {
			later = append(later, r.call(2, sessionRef{1, i}))
		}
		elsewhere := r.call(3, sessionRef{1, 7})
		time.Sleep(150 * time.Millisecond)
		synctest.Wait()
		for name, c := range map[string]*rollCall{"the first": first, "at another node": elsewhere} {
			select {
			case <-c.answered:
			default:
				t.Errorf("%s is not answered", name)
			}
		}
		<-later[99].answered
		if !later[0].attached[sessionRef{1, 7}] || later[0] != later[99] {
			t.Errorf("the next: %v", later[0].attached)
		}
		synctest.Wait()
		if len(r.next) != 0 || !slices.Equal(p.asked, []int{1, 1, 100}) {
			t.Errorf("questions about %v sessions, %d under way", p.asked, len(r.next))
		}
	})
}

func TestAnAnswerThatFailsSaysNothingOfAnybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoll(func(context.Context, uint64, []sessionRef) ([]bool, error) {
			return []bool{true, true}, errors.New("it is for others")
		})
		if c := r.call(2, sessionRef{1, 7}); func() bool { <-c.answered; return c.attached[sessionRef{1, 7}] }() {
			t.Error("an answer with an error counts")
		}
		r.ask = func(context.Context, uint64, []sessionRef) ([]bool, error) { return []bool{true, true}, nil }
		if c := r.call(2, sessionRef{1, 7}); func() bool { <-c.answered; return c.attached[sessionRef{1, 7}] }() {
			t.Error("an answer about more than was asked counts")
		}
	})
}
