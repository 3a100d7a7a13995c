package replication

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/understudy-mq/understudy/replication/transport"
)

// sink is a network that keeps what was sent.
type sink struct {
	sent []transport.Frame
	to   []uint64 // of each that was ever sent
	down bool
}

func (s *sink) Send(to uint64, f transport.Frame) bool {
	if !s.down {
		s.sent, s.to = append(s.sent, f), append(s.to, to)
	}
	return !s.down
}
func (s *sink) Stream(context.Context, uint64, uint64, []byte, io.WriterTo) error {
	return errors.New("no stream")
}
func (s *sink) SetPeer(uint64, string) {}
func (s *sink) RemovePeer(uint64)      {}

// batches are the sequence numbers of the batches sent, in order.
func (s *sink) batches(t *testing.T) []uint64 {
	t.Helper()
	var out []uint64
	for _, f := range s.sent {
		if fw, err := decodeForward(f.Payload); err == nil && f.Kind == transport.Batch && fw.incarnation != 0 {
			out = append(out, fw.seq)
		}
	}
	s.sent = nil
	return out
}

// bare is a group that is nothing but its routing: no raft, no log.
func bare(self uint64) (*Group, *sink) {
	net := &sink{}
	o := &Options{NodeID: self, ElectionTicks: 15, TickInterval: 100 * time.Millisecond, Wall: time.Now, Codec: Codec{
		AppendHeader: func(b []byte, _ int64) []byte { return append(b, 'h') },
		AppendBatch: func(b []byte, node, incarnation, seq uint64, commands []byte) []byte {
			return append(append(b, byte(node), byte(incarnation), byte(seq)), commands...)
		},
		LeaderUp: func(_, _ uint64) []byte { return []byte("up") },
		NodeUp:   func(_, _ uint64) []byte { return []byte("me") },
		NodeDown: func(node, _ uint64) []byte { return []byte{'-', byte(node)} },
		Tick:     func() []byte { return []byte("t") },
	}}
	e := &env{
		self: self, opts: o, network: net, logger: slog.New(slog.DiscardHandler),
		mono: func() time.Duration { return 0 }, heard: func(uint64) time.Duration { return 0 },
		peers: func(uint64, membership) {}, readOnly: func() error { return nil }, pressed: func() bool { return false },
	}
	g := &Group{id: 1, env: e, logger: e.logger, in: newInbox()}
	e.written = func() int64 { return g.appended.bytes }
	g.submits = newSubmitter(func() {})
	g.setMembers(firstMembership(map[uint64]string{1: "a", 2: "b", 3: "c"}))
	g.me.renew()
	return g, net
}

// leading makes a bare group the ready leader of term 5, with node 2 registered as incarnation 7, its last batch 3.
func leading() (*Group, *sink) {
	g, net := bare(1)
	g.term, g.leader = 5, 1
	g.startLeading()
	g.leadApplied(&report{leadTerm: 5, lanes: []lane{{node: 2, incarnation: 7, nonce: 9, seq: 3}}})
	g.lead.control = nil
	net.sent = nil
	return g, net
}

func pending(g *Group) []uint64 {
	var out []uint64
	for _, p := range g.lead.pending {
		out = append(out, p.seq)
	}
	return out
}

func TestLeaderTakesNoBatchBeforeItsLeaderUpIsApplied(t *testing.T) {
	g, net := bare(1)
	g.term, g.leader = 5, 1
	g.startLeading()
	g.leadApplied(&report{leadTerm: 4, lanes: []lane{{node: 2, incarnation: 7, nonce: 9, seq: 3}}})
	g.takeForward(2, forward{incarnation: 7, seq: 4})
	if len(g.lead.pending) != 0 || len(net.sent) != 0 {
		t.Fatal("a batch was taken in on the strength of an earlier term's state")
	}
	g.leadApplied(&report{leadTerm: 5, lanes: []lane{{node: 2, incarnation: 7, nonce: 9, seq: 3}}})
	if len(net.sent) != 1 || net.sent[0].Kind != transport.Expect {
		t.Fatal("node 2 was not told what is expected of it")
	}
	if e, err := decodeExpectation(net.sent[0].Payload); err != nil || e != (expectation{5, 7, 4}) {
		t.Errorf("told %+v, %v", e, err)
	}
	g.takeForward(2, forward{incarnation: 7, seq: 4})
	if got := pending(g); !slices.Equal(got, []uint64{4}) {
		t.Errorf("pending %v", got)
	}
}

func TestControlCommandsGoToTheLeaderWhereverItIs(t *testing.T) {
	g, net := bare(1)
	g.sendControl([]byte("lost")) // no leader: nowhere to go
	g.leader = 2
	g.sendControl([]byte("sent"))
	if len(net.sent) != 1 {
		t.Fatalf("%d frames sent, want 1", len(net.sent))
	}
	f, err := decodeForward(net.sent[0].Payload)
	if err != nil || net.sent[0].Kind != transport.Batch || f.incarnation != 0 || string(f.commands) != "sent" {
		t.Errorf("sent %+v, %v", f, err)
	}
	g.leader, g.term = 1, 5
	g.startLeading()
	g.sendControl([]byte("kept"))
	if got := string(g.lead.control); !strings.HasSuffix(got, "kept") || len(net.sent) != 1 {
		t.Errorf("the leader has %q to propose, %d frames sent", got, len(net.sent))
	}
}

func TestLeaderTakesOnlyTheNextBatchOfANode(t *testing.T) {
	g, net := leading()
	for _, f := range []forward{
		{incarnation: 7, seq: 3}, // repeated
		{incarnation: 6, seq: 4}, // of a process that is gone
		{incarnation: 7, seq: 6}, // a gap
		{incarnation: 7, seq: 7}, // still the same gap
	} {
		g.takeForward(2, f)
	}
	if len(g.lead.pending) != 0 {
		t.Fatalf("pending %v", pending(g))
	}
	if len(net.sent) != 1 {
		t.Fatalf("a gap was answered %d times", len(net.sent))
	}
	for _, seq := range []uint64{4, 5, 5, 4, 6} {
		g.takeForward(2, forward{incarnation: 7, seq: seq})
	}
	if got := pending(g); !slices.Equal(got, []uint64{4, 5, 6}) {
		t.Errorf("pending %v", got)
	}
}

func TestWordThatCouldNotBeSentIsSentLater(t *testing.T) {
	g, net := leading()
	net.down = true
	g.tell(2)
	net.down = false
	g.tickLead()
	if len(net.sent) != 1 || net.sent[0].Kind != transport.Expect {
		t.Errorf("sent %v", net.sent)
	}
}

// follower makes a bare group node 2, registered as incarnation 7, that has sent batches 1 to n to leader 1 in term 5.
func follower(t *testing.T, n int) (*Group, *sink) {
	g, net := bare(2)
	g.term, g.leader = 5, 1
	g.registered(&report{lanes: []lane{{node: 2, incarnation: 7, nonce: g.me.nonce}}})
	g.expected(1, expectation{5, 7, 1})
	for range n {
		if err := g.submits.submit([]byte("x"), 1, false); err != nil {
			t.Fatal(err)
		}
		g.pump()
	}
	return g, net
}

func TestBatchesAreSentAgainFromWhereTheLeaderSays(t *testing.T) {
	g, net := follower(t, 4)
	if got := net.batches(t); !slices.Equal(got, []uint64{1, 2, 3, 4}) {
		t.Fatalf("sent %v", got)
	}
	g.expected(1, expectation{5, 7, 3})
	g.pump()
	if got := net.batches(t); !slices.Equal(got, []uint64{3, 4}) {
		t.Errorf("after the leader's word: %v", got)
	}
	g.expected(1, expectation{4, 7, 1})
	g.pump()
	if got := net.batches(t); got != nil {
		t.Errorf("after the word of an old leader: %v", got)
	}
}

func TestBatchesAreSentAgainOnANewConnectionAndNeverOnATimeOut(t *testing.T) {
	g, net := follower(t, 3)
	net.batches(t)
	for range 100 {
		g.ticks++
		g.tickRegistration()
		g.pump()
	}
	if got := net.batches(t); got != nil {
		t.Fatalf("sent again for mere time: %v", got)
	}
	g.peerUp(1)
	g.pump()
	if got := net.batches(t); !slices.Equal(got, []uint64{1, 2, 3}) {
		t.Errorf("on a new connection: %v", got)
	}
}

func TestBatchesWaitForTheWordOfANewLeader(t *testing.T) {
	g, net := follower(t, 2)
	net.batches(t)
	g.term, g.leader, g.target = 6, 3, target{}
	g.pump()
	if got := net.batches(t); got != nil {
		t.Fatalf("sent to a leader that is not ready: %v", got)
	}
	g.expected(3, expectation{6, 7, 2})
	g.pump()
	if got := net.batches(t); !slices.Equal(got, []uint64{2}) {
		t.Errorf("to the new leader: %v", got)
	}
	g.expected(3, expectation{6, 6, 1})
	g.pump()
	if got := net.batches(t); got != nil {
		t.Errorf("after a word about another registration: %v", got)
	}
}

func TestBatchThatTheTransportDropsIsSentBeforeLaterOnes(t *testing.T) {
	g, net := follower(t, 1)
	net.batches(t)
	net.down = true
	_ = g.submits.submit([]byte("x"), 1, false)
	g.pump()
	net.down = false
	_ = g.submits.submit([]byte("x"), 1, false)
	g.pump()
	if got := net.batches(t); !slices.Equal(got, []uint64{2, 3}) {
		t.Errorf("sent %v", got)
	}
}

func TestNodeThatSeesAnotherNonceRegistersAnew(t *testing.T) {
	for _, c := range []struct {
		name, reason string
		nonce        uint64
	}{{"its own NodeDown", "declared down", 0}, {"another process", "another process", 42}} {
		g, net := follower(t, 1)
		var reason string
		g.env.opts.Observer.Unregistered = func(_ uint64, r string) { reason = r }
		net.sent = nil
		nonce := g.me.nonce
		g.registered(&report{lanes: []lane{{node: 2, incarnation: 8, nonce: c.nonce}}})
		if !strings.Contains(reason, c.reason) {
			t.Errorf("%s: reason %q", c.name, reason)
		}
		if g.me.nonce == nonce || len(g.flight) != 0 {
			t.Errorf("%s: the old registration's nonce or batches are kept", c.name)
		}
		if len(net.sent) != 1 || net.sent[0].Kind != transport.Batch {
			t.Errorf("%s: no NodeUp was sent", c.name)
		}
		if err := g.submits.submit([]byte("x"), 1, false); !errors.Is(err, ErrUnregistered) {
			t.Errorf("%s: submit: %v", c.name, err)
		}
	}
}

func TestSubmitBlocksBeforeRaftWouldDropAnything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubmitter(func() {})
		s.register(1, 0)
		command := make([]byte, 64<<10)
		accepted := 0
		go func() {
			for accepted < 4*windowBytes/len(command) && s.submit(command, 1, false) == nil { // bounded, should the bound not hold
				accepted++
			}
		}()
		synctest.Wait()
		if want := windowBytes / len(command); accepted != want {
			t.Errorf("%d commands accepted, want %d", accepted, want)
		}
		taken := s.take(nil)
		s.applied(taken[:1], true)
		synctest.Wait()
		if want := (windowBytes + len(taken[0].commands)) / len(command); accepted != want {
			t.Errorf("%d commands accepted after one batch was applied, want %d", accepted, want)
		}
		s.close(ErrUnregistered)
		synctest.Wait()
	})
}

func TestBlockedSubmitFailsWhenTheRegistrationIsLostThoughANewOneCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubmitter(func() {})
		s.register(1, 0)
		_ = s.submit(make([]byte, windowBytes), 1, false)
		var err error
		go func() { err = s.submit([]byte("x"), 1, false) }()
		synctest.Wait()
		s.mu.Lock()
		s.generation++ // a loss and a new registration before the sleeper wakes
		s.bytes = 0
		s.room.Broadcast()
		s.mu.Unlock()
		synctest.Wait()
		if !errors.Is(err, ErrUnregistered) {
			t.Errorf("error %v", err)
		}
	})
}

func TestSubmitterSealsWhileFewBatchesFlyOrAtItsBounds(t *testing.T) {
	s := newSubmitter(func() {})
	s.register(1, 10)
	var all []batch
	for range batchesInFlight + 2 {
		_ = s.submit([]byte("ab"), 1, false)
		all = s.take(all)
	}
	if len(all) != batchesInFlight || all[0].seq != 11 {
		t.Fatalf("%d batches taken from %d on", len(all), all[0].seq)
	}
	s.applied(all[:1], false)
	if next := s.take(nil); len(next) != 1 || string(next[0].commands) != "abab" {
		t.Errorf("what waited is not one batch: %v", next)
	}
	_ = s.submit([]byte("x"), batchCommands, false)
	_ = s.submit(make([]byte, batchBytes), 1, false)
	if next := s.take(nil); len(next) != 2 {
		t.Errorf("%d batches at the bounds", len(next))
	}
}

func TestCommandsThatMayComeLaterWaitForCompanyAndNotForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		woken := 0
		s := newSubmitter(func() { woken++ })
		s.register(1, 0)
		_ = s.submit([]byte("a"), 1, true)
		if woken != 0 || len(s.take(nil)) != 0 {
			t.Fatal("what may come later did not wait")
		}
		_ = s.submit([]byte("b"), 1, false)
		if got := s.take(nil); woken != 1 || len(got) != 1 || string(got[0].commands) != "ab" {
			t.Fatalf("woken %d, taken %v", woken, got)
		}
		_ = s.submit([]byte("c"), 1, true)
		time.Sleep(laterDelay) // on the test's own clock
		synctest.Wait()
		if got := s.take(nil); woken != 2 || len(got) != 1 || string(got[0].commands) != "c" {
			t.Fatalf("after the delay: woken %d, taken %v", woken, got)
		}
		_ = s.submit(make([]byte, batchBytes), 1, true)
		if got := s.take(nil); woken != 3 || len(got) != 1 {
			t.Fatalf("a full batch: woken %d, taken %d", woken, len(got))
		}
	})
}

func TestMembershipBlobComesBack(t *testing.T) {
	m := firstMembership(map[uint64]string{1: "a:1", 2: "b:2"})
	m = m.changed(&pb.ConfState{Voters: []uint64{1, 2}, Learners: []uint64{3}, AutoLeave: new(false)}, &pb.ConfChangeV2{
		Changes: []*pb.ConfChangeSingle{{Type: pb.ConfChangeAddLearnerNode.Enum(), NodeId: new(uint64(3))}}, Context: []byte("c:3"),
	})
	m = m.changed(&pb.ConfState{Voters: []uint64{1}, Learners: []uint64{3}, AutoLeave: new(false)}, &pb.ConfChangeV2{
		Changes: []*pb.ConfChangeSingle{{Type: pb.ConfChangeRemoveNode.Enum(), NodeId: new(uint64(2))}},
	})
	got, err := decodeMembership(m.encode())
	if err != nil {
		t.Fatal(err)
	}
	if err := got.raft.Equivalent(m.raft); err != nil {
		t.Error(err)
	}
	if len(got.addresses) != 2 || got.addresses[3] != "c:3" || !slices.Equal(got.removed, []uint64{2}) {
		t.Errorf("addresses %v, removed %v", got.addresses, got.removed)
	}
	if _, err := decodeMembership([]byte{confVersion + 1}); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Errorf("a newer version: %v", err)
	}
}

func TestAppendedEntriesComeBackAsTheyWere(t *testing.T) {
	m := &pb.Message{
		Type: pb.MsgApp.Enum(), To: new(uint64(2)), From: new(uint64(1)), Term: new(uint64(5)), LogTerm: new(uint64(4)),
		Index: new(uint64(9)), Commit: new(uint64(8)), Entries: []*pb.Entry{
			{Term: new(uint64(5)), Index: new(uint64(10)), Type: pb.EntryNormal.Enum()},
			{Term: new(uint64(5)), Index: new(uint64(11)), Type: pb.EntryNormal.Enum(), Data: []byte("abc")},
			{Term: new(uint64(5)), Index: new(uint64(12)), Type: pb.EntryConfChangeV2.Enum(), Data: []byte("defg")},
		},
	}
	payload, rest, err := encodeAppend(m)
	if err != nil {
		t.Fatal(err)
	}
	whole := slices.Concat(append([][]byte{payload}, rest...)...)
	got, err := decodeAppend(whole)
	if err != nil || !proto.Equal(got, m) {
		t.Errorf("%v, %v", got, err)
	}
	for n := range whole {
		if _, err := decodeAppend(whole[:n]); err == nil {
			t.Errorf("the first %d of %d bytes are taken for a message", n, len(whole))
		}
	}
}

func FuzzWire(f *testing.F) {
	f.Add(forward{1, 2, []byte("abc")}.encode())
	f.Add(firstMembership(map[uint64]string{1: "a"}).encode())
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = decodeForward(b)
		_, _ = decodeExpectation(b)
		_, _ = decodeRequest(b)
		_, _ = decodeResponse(b)
		_, _ = decodeMembership(b)
		_, _ = decodeAppend(b)
		_, _ = decodeLoan(b)
	})
}

// shortLog is a log of which only the beginning is known.
type shortLog struct {
	GroupLog
	first uint64
}

func (l shortLog) FirstIndex() (uint64, error) { return l.first, nil }

// cutAt is a snapshot at an index.
type cutAt uint64

func (c cutAt) Index() uint64                    { return uint64(c) }
func (c cutAt) Term() uint64                     { return 1 }
func (c cutAt) Conf() []byte                     { return nil }
func (c cutAt) Close() error                     { return nil }
func (c cutAt) WriteTo(io.Writer) (int64, error) { return 0, nil }

func TestAcknowledgementsAreRepeatedWhereTheLeaderMayNotKnow(t *testing.T) {
	ack := func(to, term, index uint64) *pb.Message {
		return &pb.Message{Type: pb.MsgAppResp.Enum(), To: new(to), Term: new(term), Index: new(index)}
	}
	refusal := ack(2, 5, 10)
	refusal.Reject = new(true)
	for _, c := range []struct {
		name string
		m    *pb.Message
		tick uint64
		want int
	}{
		{"the same", ack(2, 5, 10), 8, 0},
		{"less", ack(2, 5, 9), 7, 0},
		{"more", ack(2, 5, 11), 7, 1},
		{"another leader", ack(3, 5, 10), 7, 1},
		{"another term", ack(2, 6, 10), 7, 1},
		{"a refusal", refusal, 7, 1},
		{"two ticks later", ack(2, 5, 10), 9, 1},
		{"another message", &pb.Message{Type: pb.MsgStorageAppendResp.Enum(), To: new(uint64(2)), Term: new(uint64(5))}, 7, 1},
	} {
		var told told
		if n := len(told.news([]*pb.Message{ack(2, 5, 10)}, 7)); n != 1 {
			t.Fatalf("%d of the first", n)
		}
		if n := len(told.news([]*pb.Message{c.m}, c.tick)); n != c.want {
			t.Errorf("%s: %d messages", c.name, n)
		}
	}
}

func TestSnapshotFromBeforeALearnerWasAddedIsCutAnew(t *testing.T) {
	g, _ := bare(1)
	g.log = shortLog{first: 50}
	g.env.pin = func(uint64, uint64) func() { return func() {} }
	g.apply = newApplier(nil)
	c := &cut{snap: cutAt(60), members: g.members, unpin: func() {}}
	g.snapshots.prepared = c
	if s, err := g.snapshot(); err != nil || s.GetMetadata().GetIndex() != 60 {
		t.Fatalf("a good cut is not used: %v", err)
	}
	g.snapshots.prepared = c
	g.setMembers(g.members.changed(&pb.ConfState{Voters: []uint64{1, 2, 3}, Learners: []uint64{4}, AutoLeave: new(false)}, &pb.ConfChangeV2{}))
	if _, err := g.snapshot(); !errors.Is(err, raft.ErrSnapshotTemporarilyUnavailable) {
		t.Errorf("an old cut: %v", err)
	}
	if len(g.apply.queue) != 1 {
		t.Error("no new cut was asked for")
	}
	g.log = shortLog{first: 70}
	c.members = g.members
	g.snapshots.prepared = c
	if _, err := g.snapshot(); !errors.Is(err, raft.ErrSnapshotTemporarilyUnavailable) {
		t.Errorf("a cut that the log does not reach back to: %v", err)
	}
}

func TestTicksThatWereMissedCountAsOne(t *testing.T) {
	in := newInbox()
	for range 50 { // a process that was stopped for five seconds
		in.tick()
	}
	if _, ticks := in.take(nil); ticks != 1 {
		t.Errorf("%d ticks: the node would call an election for time that it slept through", ticks)
	}
}

func TestInboxBoundsWhatPeersSend(t *testing.T) {
	in := newInbox()
	for range 3 {
		in.put(event{kind: eventStep, size: peerBytesMost / 2})
	}
	in.put(event{kind: eventStored}) // the node's own are never dropped
	if events, _ := in.take(nil); len(events) != 3 {
		t.Errorf("%d events kept", len(events))
	}
}

// A node that starts listens before it has read who its members are. Whoever came then would be let in, and its word for its own
// address taken over the one that is configured.
func TestNobodyIsAdmittedBeforeTheMembersAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Options{NodeID: 1}
		o.EnsureDefaults()
		n := newNode(o)
		n.net = &sink{}
		answers := map[uint64]chan error{2: make(chan error, 1), 9: make(chan error, 1)}
		for id, answer := range answers {
			go func() { answer <- n.admit(transport.Hello{From: id, Address: "elsewhere:1"}) }()
		}
		synctest.Wait()
		for id, answer := range answers {
			select {
			case err := <-answer:
				t.Errorf("node %d is answered before that: %v", id, err)
			default:
			}
		}
		n.membersChanged(0, firstMembership(map[uint64]string{1: "a:1", 2: "b:1"}))
		close(n.opened)
		if err := <-answers[2]; err != nil {
			t.Errorf("a member: %v", err)
		}
		if err := <-answers[9]; err == nil || !strings.Contains(err.Error(), "is not a member") {
			t.Errorf("a stranger: %v", err)
		}
	})
}
