package replication

import (
	"math"
	"testing"
)

func TestLogIsKeptOnALeadersWordUntilThatIsOld(t *testing.T) {
	const elections, from = 10, 80
	for _, c := range []struct {
		what    string
		happens func(g *Group)
		want    uint64
	}{
		{"it is said", func(*Group) {}, from},
		{"it was said a while ago", func(g *Group) { g.ticks += lentElections * elections }, from},
		{"it was said long ago", func(g *Group) { g.ticks += lentElections*elections + 1 }, none},
		{"the follower has got on", func(g *Group) { g.takeLoan(loan{term: 5, to: 2, from: from + 5}) }, from + 5},
		{"a later leader says something else", func(g *Group) { g.takeLoan(loan{term: 6, to: 2, from: from + 9}) }, from + 9},
		{"an earlier leader says something else", func(g *Group) { g.takeLoan(loan{term: 4, to: 2, from: from - 9}) }, from},
		{"another follower has less", func(g *Group) { g.takeLoan(loan{term: 5, to: 3, from: from - 9}) }, from - 9},
		{"a stranger has less", func(g *Group) { g.takeLoan(loan{term: 5, to: 9, from: from - 9}) }, from},
		{"the volume is too full", func(g *Group) { g.env.pressed = func() bool { return true } }, none},
	} {
		g, _ := bare(1)
		g.env.opts.ElectionTicks, g.ticks = elections, 300
		g.takeLoan(loan{term: 5, to: 2, from: from})
		c.happens(g)
		if got := g.kept(); got != c.want {
			t.Errorf("%s: the log is kept from %d, want %d", c.what, got, c.want)
		}
	}
}

func TestDebtsOfALeaderAreItsSuccessors(t *testing.T) {
	const lag, sent, from = 1000, 70, 80
	old, d := sending(lag, 10, from)
	net := old.env.network.(*sink)
	old.term, old.lead = 5, &leadership{}
	d.sent.Store(sent)
	d.look(0, old.ticks)
	old.lend()
	if len(net.sent) != 1 || net.to[0] != 3 {
		t.Fatalf("%d words went out, to %v: node 2 is who owes", len(net.sent), net.to)
	}
	l, err := decodeLoan(net.sent[0].Payload)
	if err != nil {
		t.Fatal(err)
	}
	heir, _ := bare(3)
	heir.env.opts.FollowerLagBytes, heir.ticks, heir.commit = lag, 300, 100
	heir.takeLoan(l)
	heir.takeLoan(loan{term: 5, to: 3, from: 7}) // what it was owed itself it has
	heir.takeOver()
	got := heir.snapshots.owed[2]
	if len(heir.snapshots.owed) != 1 || got == nil || got.index != from || got.seen != sent || got.goal != 100 || got.sending {
		t.Errorf("it owes %+v", heir.snapshots.owed)
	}
	if at := heir.kept(); at != none {
		t.Errorf("its log is kept from %d on a former leader's word", at)
	}
}

func TestLoansAreReadAsTheyWereWritten(t *testing.T) {
	want := loan{term: math.MaxUint64, to: 2, from: 3, sent: math.MaxInt64}
	if got, err := decodeLoan(want.encode()); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}
