package differential

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// accepted are lines in which the brokers differ and may. The walk does not go where these would be met all the time:
// reject-publish in a fan-out, what a full priority queue drops (both in interop/cases/differences_test.go), a TTL of 0 behind a
// message that lives, consumers that need not acknowledge beside a common prefetch, a limit of 0: what is given back beyond a queue's limit a
// waiting consumer gets here, as from a quorum queue, where RabbitMQ's classic queue drops it first.
var accepted = []struct {
	ours, theirs *regexp.Regexp
	reason       string
}{
	{regexp.MustCompile("invalid message: header '(CC|BCC)' is a"), regexp.MustCompile("invalid message: {unacceptable_type_in_header"), "words, not an Erlang term"},
	{regexp.MustCompile("invalid x-match field"), regexp.MustCompile("Invalid x-match field"), "words, not an Erlang term"},
	{regexp.MustCompile("406 .* inequivalent arg"), regexp.MustCompile("406 .* inequivalent arg"), "of several differences either may be told, and types of values are told where they differ"},
	{regexp.MustCompile("^channel.close 405 .* 50 50$"), regexp.MustCompile("^queue.unbind-ok$"), "RabbitMQ looks for the binding before it looks whose the queue is"},
}

func isAccepted(b both) bool {
	for k, ours := range b[0].said {
		theirs := b[1].said[k]
		for i := range min(len(ours), len(theirs)) {
			if ours[i] == theirs[i] {
				continue
			}
			for _, x := range accepted {
				if x.ours.MatchString(ours[i]) && x.theirs.MatchString(theirs[i]) {
					return true
				}
			}
		}
	}
	return false
}

// isRaced says whether RabbitMQ went on with what was sent behind a step that it refused: its connection learns from its channel that it
// is to discard the rest. Up to there both have to say the same.
func isRaced(b both, m move) bool {
	if len(m.steps) < 2 {
		return false
	}
	for _, lines := range b[1].said {
		if slices.ContainsFunc(lines, func(line string) bool { return strings.HasSuffix(line, "expected 'channel.open' 20 41") }) {
			return true // a second channel.close crossed the answer to the first
		}
	}
	key := fmt.Sprintf("%d/%d", m.conn, m.channel)
	ours, theirs := b[0].said[key], b[1].said[key]
	at := slices.IndexFunc(theirs, func(line string) bool { return strings.HasPrefix(line, "channel.close ") })
	return at >= 0 && len(ours) > at && slices.Equal(ours[:at+1], theirs[:at+1])
}
