package checker

import (
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"
)

// scene is a history in the making: two producers, one queue, a consumer that dies and one that takes over.
type scene struct {
	*History
	clock     Time
	producers []*Producer
	numbers   []int
	old, next *Consumer
	last      *Consumer // the drain
}

func id(producer int, seq uint64) ID {
	var id ID
	binary.BigEndian.PutUint64(id[:], uint64(producer))
	binary.BigEndian.PutUint64(id[8:], seq)
	return id
}

func (s *scene) tick() Time { s.clock++; return s.clock }

func (s *scene) publish(p int, conn int, seq uint64, fate Fate) {
	producer, number := s.producers[p], s.numbers[p]
	body := Body(id(number, seq), number, seq, 64)
	i := producer.Publish(Attempt{ID: id(number, seq), Producer: number, Conn: conn, Seq: seq, Queue: "q", Sum: Sum(body), At: s.tick()})
	if fate != Unknown {
		producer.Settle(i, fate, s.tick())
	}
}

func (s *scene) delivery(number int, seq uint64, redelivered bool) Delivery {
	return Delivery{ID: id(number, seq), Queue: "q", Sum: Sum(Body(id(number, seq), number, seq, 64)), Redelivered: redelivered, At: s.tick(), AckSent: true}
}

// good plays a history in which everything is as it should be: twenty confirmed, one refused, two unknown of which one
// came; five delivered to a consumer that dies with the last three acks lost, which come again, marked; two in the drain.
func good() *scene {
	s := &scene{History: NewHistory()}
	for range 2 {
		p, n := s.Producer()
		s.producers, s.numbers = append(s.producers, p), append(s.numbers, n)
	}
	s.old, s.next = s.Consumer(false), s.Consumer(false)
	for seq := uint64(1); seq <= 10; seq++ {
		s.publish(0, 1, seq, Confirmed)
		s.publish(1, 1, seq, Confirmed)
	}
	s.publish(0, 1, 11, Refused)
	s.publish(0, 1, 12, Unknown)
	s.publish(1, 1, 11, Unknown)
	s.publish(1, 2, 12, Confirmed)
	for seq := uint64(1); seq <= 5; seq++ {
		s.old.Deliver(s.delivery(1, seq, false))
		if seq == 2 {
			s.old.Barrier(s.tick())
		}
	}
	for seq := uint64(3); seq <= 10; seq++ {
		s.next.Deliver(s.delivery(1, seq, seq <= 5))
	}
	for seq := uint64(1); seq <= 8; seq++ {
		s.next.Deliver(s.delivery(2, seq, false))
	}
	s.next.Deliver(s.delivery(1, 12, false)) // the unknown one that came
	s.next.Barrier(s.tick())
	s.last = s.Consumer(true)
	for _, seq := range []uint64{9, 10, 12} {
		s.last.Deliver(s.delivery(2, seq, false))
	}
	s.last.Barrier(s.tick())
	return s
}

func TestGoodHistoryPasses(t *testing.T) {
	r := Check(good().History, nil)
	if !r.OK() {
		t.Fatalf("%s\n%s", r, strings.Join(r.Examples, "\n"))
	}
	want := Report{Attempts: 24, Confirmed: 21, Refused: 1, Unknown: 2, UnknownCame: 1, Deliveries: 25, Redelivered: 3, Drained: 3}
	if r.String() != want.String() {
		t.Errorf("got  %s\nwant %s", r, &want)
	}
}

func drop(c *Consumer, i int) { c.Deliveries = append(c.Deliveries[:i:i], c.Deliveries[i+1:]...) }

func TestEachFaultInAGoodHistoryIsFound(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*scene)
		want  Report // only the faults count
	}{
		{"a message dropped", func(s *scene) { drop(s.next, 6) }, Report{Lost: 1}},
		{"a message of the drain dropped", func(s *scene) { drop(s.last, 0) }, Report{Lost: 1}},
		{"delivered to a consumer that died with it, and not again", func(s *scene) {
			for i := range s.old.Deliveries[2:] {
				s.old.Deliveries[2+i].AckSent = false
			}
			drop(s.next, 0)
		}, Report{Lost: 1}},
		{"a message doubled by the broker", func(s *scene) { s.last.Deliver(s.delivery(2, 7, false)) }, Report{Copies: 1, Disorder: 1}},
		{"a message doubled at once to one consumer", func(s *scene) {
			d := s.next.Deliveries[7]
			d.At++
			s.next.Deliveries = append(s.next.Deliveries, d)
		}, Report{Copies: 1}},
		{"a redelivery that is not marked", func(s *scene) { s.next.Deliveries[0].Redelivered = false }, Report{Copies: 1}},
		{"again after its ack was committed, marked", func(s *scene) {
			s.last.Deliver(s.delivery(1, 1, true))
			s.last.Barrier(s.tick())
		}, Report{Copies: 1}},
		{"twice in the drain", func(s *scene) {
			s.last.Deliver(s.delivery(2, 9, true))
			s.last.Deliveries[0].Committed = 0
		}, Report{Copies: 1}},
		{"acknowledged twice for sure", func(s *scene) { s.old.Deliveries[4].Committed = s.old.Deliveries[4].At + 100 }, Report{Copies: 1}},
		{"two messages swapped", func(s *scene) {
			d := s.next.Deliveries
			d[5].At, d[6].At = d[6].At, d[5].At
		}, Report{Disorder: 1}},
		{"two messages swapped over two consumers of one queue", func(s *scene) {
			s.old.Deliver(Delivery{ID: id(2, 3), Queue: "q", Sum: s.next.Deliveries[10].Sum, At: s.old.Deliveries[0].At, AckSent: true, Committed: s.old.Deliveries[0].Committed})
			drop(s.next, 10)
		}, Report{Disorder: 2}},
		{"a body spoilt", func(s *scene) { s.next.Deliveries[9].Sum++ }, Report{Corrupt: 1}},
		{"a body too short for an id", func(s *scene) { s.next.Deliver(Delivery{Malformed: true, Queue: "q", At: s.tick()}) }, Report{Corrupt: 1}},
		{"a message that nobody published", func(s *scene) { s.next.Deliver(s.delivery(9, 1, false)) }, Report{Phantom: 1}},
		{"a message that was refused", func(s *scene) { s.next.Deliver(s.delivery(1, 11, false)) }, Report{Phantom: 1, Disorder: 1}},
		{"a message from another queue", func(s *scene) { s.next.Deliveries[3].Queue = "r" }, Report{Phantom: 1}},
		{"an unknown one twice", func(s *scene) {
			s.last.Deliver(s.delivery(1, 12, false))
		}, Report{Copies: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := good()
			c.spoil(s)
			got := Check(s.History, nil)
			faults := Report{Lost: got.Lost, Phantom: got.Phantom, Copies: got.Copies, Disorder: got.Disorder, Corrupt: got.Corrupt}
			if faults.String() != c.want.String() {
				t.Errorf("got %s\n%s", got, strings.Join(got.Examples, "\n"))
			}
			if got.OK() || len(got.Examples) == 0 {
				t.Errorf("passes, or names no example: %s", got)
			}
		})
	}
}

func TestStaleDeliveryToAConsumerNeverHeardOfAgainIsExcused(t *testing.T) {
	s := good()
	s.old.Deliver(s.delivery(1, 9, true)) // its node was stopped with this in its buffer
	if r := Check(s.History, nil); !r.OK() || r.Stale != 1 {
		t.Fatalf("%s\n%s", r, strings.Join(r.Examples, "\n"))
	}
	s.old.Deliveries[5].Committed = s.tick() // and yet its ack was accepted
	if r := Check(s.History, nil); r.Copies != 1 {
		t.Fatalf("an accepted ack of a stale delivery was excused: %s", r)
	}
}

func TestOrderOverTwoConsumersCountsOnlyForSingleConsumerQueues(t *testing.T) {
	s := good()
	s.old.Deliver(Delivery{ID: id(2, 3), Queue: "q", Sum: s.next.Deliveries[10].Sum, At: s.old.Deliveries[0].At, AckSent: true, Committed: s.old.Deliveries[0].Committed})
	drop(s.next, 10)
	if r := Check(s.History, func(string) bool { return false }); !r.OK() {
		t.Fatalf("%s\n%s", r, strings.Join(r.Examples, "\n"))
	}
}

func TestALaterConnectionsMessageMayOvertake(t *testing.T) {
	s := good()
	s.publish(0, 2, 13, Confirmed)
	s.publish(0, 2, 14, Confirmed)
	s.last.Deliver(s.delivery(1, 13, false))
	s.last.Deliver(s.delivery(1, 14, false))
	s.last.Deliver(s.delivery(1, 12, false)) // the unknown one of connection 1
	s.last.Barrier(s.tick())
	drop(s.next, len(s.next.Deliveries)-1)
	if r := Check(s.History, nil); !r.OK() || r.Crossed != 1 {
		t.Fatal(r.JSON())
	}
}

func TestReportIsOneLineAndJSON(t *testing.T) {
	r := Check(good().History, nil)
	if strings.Contains(r.String(), "\n") {
		t.Error("more than one line")
	}
	var back Report
	if err := json.Unmarshal([]byte(r.JSON()), &back); err != nil || back.Confirmed != r.Confirmed {
		t.Errorf("%v: %s", err, r.JSON())
	}
}

func TestBodyCarriesItsIDAndEveryByteCounts(t *testing.T) {
	body := Body(id(3, 4), 3, 4, 100)
	if got, ok := BodyID(body); !ok || got != id(3, 4) || len(body) != 100 {
		t.Fatalf("id %x (%v), %d bytes", got, ok, len(body))
	}
	sum := Sum(body)
	for i := range body {
		body[i] ^= 1
		if Sum(body) == sum {
			t.Fatalf("byte %d does not count", i)
		}
		body[i] ^= 1
	}
	if _, ok := BodyID(body[:HeaderBytes-1]); ok {
		t.Error("an id in a body that is too short")
	}
}
