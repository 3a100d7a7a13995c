package replication_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"
)

func TestANodeAnswersWhatItsPeersAsk(t *testing.T) {
	const late, tooLong = "late", "too long"
	release := make(chan struct{})
	ms := cluster(t, 3, func(m *member) {
		m.opts.Answer = func(peer uint64, question []byte) []byte {
			switch string(question) {
			case late:
				<-release
			case tooLong:
				return make([]byte, 33<<20)
			}
			return append([]byte{byte('0' + peer)}, question...)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	big := strings.Repeat("x", 5<<20)
	for _, question := range []string{"", "who?", big} {
		eventually(t, "an answer", func() bool {
			once, cancel := context.WithTimeout(ctx, time.Second) // the way back may not be there yet
			defer cancel()
			answer, err := ms[1].node.Ask(once, 2, []byte(question))
			return err == nil && bytes.Equal(answer, []byte("1"+question))
		})
	}
	for _, question := range []string{late, tooLong} {
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		if _, err := ms[1].node.Ask(short, 2, []byte(question)); err == nil || !strings.Contains(err.Error(), "does not answer") {
			t.Errorf("%s: %v, want an error that says so", question, err)
		}
		cancel()
	}
	close(release)
	if _, err := ms[1].node.Ask(ctx, 9, nil); err == nil {
		t.Error("a node that is not there has answered")
	}
	eventually(t, "an answer to another node", func() bool {
		once, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		answer, err := ms[3].node.Ask(once, 1, []byte("still there?"))
		return err == nil && string(answer) == "3still there?"
	})
}
