package programs

import (
	"slices"
	"strings"
	"testing"
)

// transcript is what program "basics" prints, a line per step:
//
//   - declares the topic exchange basics.x and the queue basics.q (dead letters to the queue basics.dead), binds a.#
//   - publishes 100 persistent messages, bodies 1 to 100, with confirms and the mandatory flag to basics.x with key a.b
//   - asks for the queue's depth by a passive declare
//   - consumes with a prefetch of 10 until it holds 10, and asks again
//   - acks the first eight with one multiple ack, nacks the ninth with requeue, rejects the tenth for good, acks the rest
//   - gets the dead letter of the tenth and reads its x-death
//   - publishes what nothing is bound for
//   - declares an exclusive queue and asks for it on another connection
//   - declares basics.q with other arguments, then passively a queue that is not there, each on a channel of its own
//   - lets a message expire in basics.ttl (50 ms, dead letters to basics.dead)
//   - publishes and gets a message with headers of every type, then its 13 properties but for the cluster id
//   - publishes and gets 5 MiB
//   - consumes as "watcher" from a queue that is then deleted
//   - asks 21 of a server at basics.rpc over direct reply-to
//   - closes
var transcript = []string{
	"declared: 0 messages, 0 consumers",
	"confirmed: 100 of 100",
	"waiting: 100",
	"prefetch 10: 10 in hand, 90 waiting",
	"drained: 100 distinct, again: 9",
	"dead: 10, rejected from basics.q",
	"returned: 312 NO_ROUTE zzz",
	"exclusive: 405",
	"inequivalent: 406",
	"missing: 404",
	"dead: late, expired from basics.ttl",
	"headers: s=text i=-7 l=1099511627776 b=true d=1.5 t=1700000000 x=00ff n=k:v a=1,two v=null",
	"properties: text/plain utf-8 2 5 corr reply 60000 msg 1700000000 kind guest app",
	"large: 5242880 bytes, the same",
	"cancelled: watcher",
	"rpc: 42",
	"closed",
}

// Basics runs program "basics" and compares it with the transcript. Lacks names the headers whose type the library
// cannot write or read, by their key; the program leaves them out.
func (c Client) Basics(t *testing.T, url string, lacks ...string) {
	t.Helper()
	c.Prints(t, url, "basics", without(transcript, lacks)...)
}

// Prints runs a program of the family's own, which must print the lines and end.
func (c Client) Prints(t *testing.T, url, program string, lines ...string) {
	t.Helper()
	p := c.Start(t, []string{"AMQP_URL=" + url}, program)
	p.Says(lines...)
	p.Ends()
}

func without(lines, lacks []string) []string {
	out := slices.Clone(lines)
	for i, line := range out {
		words := strings.Fields(line)
		if words[0] != "headers:" {
			continue
		}
		out[i] = strings.Join(slices.DeleteFunc(words, func(w string) bool {
			key, _, assigned := strings.Cut(w, "=")
			return assigned && slices.Contains(lacks, key)
		}), " ")
	}
	return out
}
