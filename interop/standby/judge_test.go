package standby

import (
	"testing"
	"time"
)

// Each fault that the judge knows is found, and a good round has none.
func TestTheJudgeFindsEachFault(t *testing.T) {
	contact := time.Unix(1000, 0)
	at := func(seconds float64) time.Time { return contact.Add(time.Duration(seconds * float64(time.Second))) }
	msg := func(id string, sent, confirmed float64) *message {
		return &message{id: id, sent: at(sent), confirmed: at(confirmed), bySource: true}
	}
	crash, planned := kind{name: "crash"}, kind{name: "planned", lossless: true}
	came := func(id string, source, again bool, when float64) seen { return seen{id, source, again, at(when)} }
	for name, c := range map[string]struct {
		kind     kind
		messages []*message
		seen     []seen
		ok       bool
	}{
		"nothing missing":             {planned, []*message{msg("a", -5, -4)}, []seen{came("a", true, false, -3)}, true},
		"a tail after a crash":        {crash, []*message{msg("a", -0.1, 0.1)}, nil, true},
		"a tail after a switch":       {planned, []*message{msg("a", -0.1, 0.1)}, nil, false},
		"lost before the bound":       {crash, []*message{msg("a", -5, -0.6)}, nil, false},
		"lost long before":            {crash, []*message{msg("a", -5, -2)}, nil, false},
		"lost by the promoted":        {crash, []*message{{id: "a", sent: at(3), confirmed: at(4)}}, nil, false},
		"a gap":                       {crash, []*message{msg("a", 0, 0.1), msg("b", 0.2, 0.3)}, []seen{came("b", false, false, 5)}, false},
		"a phantom":                   {crash, nil, []seen{came("x", false, false, 5)}, false},
		"doubled by one":              {crash, []*message{msg("a", -5, -4)}, []seen{came("a", false, false, 5), came("a", false, false, 6)}, false},
		"doubled by both":             {crash, []*message{msg("a", -5, -4)}, []seen{came("a", true, false, -3), came("a", false, false, 6)}, false},
		"delivered in the tail":       {crash, []*message{msg("a", -5, -4)}, []seen{came("a", true, false, 0.1), came("a", false, false, 6)}, true},
		"delivered again, so it says": {crash, []*message{msg("a", -5, -4)}, []seen{came("a", true, false, -3), came("a", false, true, 6)}, true},
	} {
		h := &history{messages: map[string]*message{}, seen: c.seen}
		for _, m := range c.messages {
			h.messages[m.id] = m
		}
		v := judge(trial{kind: c.kind, h: h, contact: contact, since: at(-0.5), group: func(int) uint64 { return 1 }})
		if v.OK(c.kind) != c.ok {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
