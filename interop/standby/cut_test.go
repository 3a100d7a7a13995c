package standby

import (
	"fmt"
	"maps"
	"os/exec"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
)

// log is a log of a group's entries up to an index.
func logUpTo(last uint64) map[logged]string {
	l := map[logged]string{}
	for i := uint64(1); i <= last; i++ {
		l[logged{1, i, 3}] = fmt.Sprint("sum of ", i)
	}
	return l
}

func TestALogThatIsNoPrefixIsFound(t *testing.T) {
	const cut = 8
	none := func(_, _ map[logged]string) {}
	for _, c := range []struct {
		name   string
		seeded bool
		spoil  func(own, replayed map[logged]string)
		fault  string
	}{
		{"a prefix", false, none, ""},
		{"one that begins with a seed", true, func(_, r map[logged]string) { delete(r, logged{1, 1, 3}) }, ""},
		{"one that begins late", false, func(_, r map[logged]string) { delete(r, logged{1, 1, 3}) }, "begins with"},
		{"more, which did not count", false, func(_, r map[logged]string) { r[logged{1, 11, 9}] = "x" }, ""},
		{"another entry", false, func(_, r map[logged]string) { r[logged{1, 5, 3}] = "x" }, "in the source's"},
		{"an entry of another term", false, func(_, r map[logged]string) { r[logged{1, 5, 4}] = "x" }, "the source's has not"},
		{"an entry that the source has not", false, func(o, _ map[logged]string) { delete(o, logged{1, 5, 3}) }, "the source's has not"},
		{"an entry missing", true, func(_, r map[logged]string) { delete(r, logged{1, 5, 3}) }, "has 7"},
		{"the last entry missing", true, func(_, r map[logged]string) { delete(r, logged{1, cut, 3}) }, "does not have that"},
		{"nothing", false, func(_, r map[logged]string) { clear(r) }, "does not have that"},
		{"nothing but the seed", true, func(_, r map[logged]string) { clear(r) }, ""},
		{"raft's own entry, which is not", false, func(_, r map[logged]string) { r[logged{1, 5, 3}] = "" }, "in the source's"},
	} {
		own, replayed := logUpTo(10), logUpTo(cut)
		c.spoil(own, replayed)
		short := nodeLog{own: maps.Clone(own)}
		delete(short.own, logged{1, 7, 3})
		_, err := isPrefix([]nodeLog{short, {own: own}}, []nodeLog{{replayed: replayed}}, map[uint64]uint64{1: cut}, c.seeded)
		if c.fault == "" && err != nil || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.fault)
		}
	}
}

func TestReportsOfDifferentCutsAreFound(t *testing.T) {
	report := func() harness.Promotion {
		g := harness.PromotionGroup{Group: 1, Fingerprint: "f"}
		g.Position.Index, g.Position.Hash = 5, "h"
		return harness.Promotion{Kind: "planned", Generation: 1, Groups: []harness.PromotionGroup{g}}
	}
	if err := sameCut(report(), report()); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*harness.Promotion){
		"kind":        func(p *harness.Promotion) { p.Kind = "forced" },
		"generation":  func(p *harness.Promotion) { p.Generation = 2 },
		"groups":      func(p *harness.Promotion) { p.Groups = nil },
		"index":       func(p *harness.Promotion) { p.Groups[0].Position.Index = 6 },
		"hash":        func(p *harness.Promotion) { p.Groups[0].Position.Hash = "x" },
		"fingerprint": func(p *harness.Promotion) { p.Groups[0].Fingerprint = "x" },
	} {
		p := report()
		if spoil(&p); sameCut(report(), p) == nil {
			t.Errorf("%s: two reports that differ are the same", name)
		}
	}
}

func TestWhatDumpLogPrintsIsRead(t *testing.T) {
	l, err := readLog(strings.NewReader(`{"kind":"state","group":1,"index":0,"term":2}
{"kind":"entry","group":1,"index":4,"term":2,"sum":"aa","batches":[{"node":1}]}
{"kind":"entry","group":1,"index":5,"term":2,"replays":{"source":"s","index":40,"term":7},"sum":"bb"}`))
	if err != nil || len(l.own) != 1 || l.own[logged{1, 4, 2}] != "aa" || len(l.replayed) != 1 || l.replayed[logged{1, 40, 7}] != "bb" {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := readLog(strings.NewReader(`{"kind":`)); err == nil {
		t.Error("half a line is read")
	}
}

func TestAStoppedNodeTellsTheStateThatItHadAtAnEntryUnlessItsCheckpointIsBeyond(t *testing.T) {
	n := harness.Start(t, harness.Options{Args: []string{"--groups", "1"}}).Node(1)
	put(t, n, "a", "b")
	groups, err := n.Groups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	put(t, n, "c")
	n.Kill9()
	want := fmt.Sprintf(`[{"group":1,"applied":%d,"term":%d,"fingerprint":%s}]`, groups[1].Applied, groups[1].Term, groups[1].Fingerprint)
	at := fmt.Sprintf("1=%d", groups[1].Applied)
	if got := strings.TrimSpace(string(understudy(t, "fingerprint", "--data", n.Data, "--at", at))); got != want {
		t.Errorf("offline %s, online %s", got, want)
	}
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Terminate(t.Context()); err != nil { // which makes a checkpoint
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), harness.Binary(t), "fingerprint", "--data", n.Data, "--at", at).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the newest checkpoint") {
		t.Errorf("an entry before the checkpoint: %v, %s", err, out)
	}
}
