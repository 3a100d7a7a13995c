package core_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

// taken is a publish as it was taken in, be it to wait for a commit or for its delay to end.
type taken struct {
	special bool        // more than a queue's name may be needed to route it again
	letter  core.Letter // all that may be needed
	ttl     int64       // -1 for none
	deadly  []uint32    // queues that dead-lettered then
	as      published   // zero where its session does not identify it
	stamp   int64
}

// note remembers the entry's publishes by where their records lie, unless the entry has changed what becomes of them.
func (c *calm) note() {
	if core.Topology(c.d.Machine) != c.topology {
		return
	}
	for _, cmd := range c.cmds {
		p, ok := cmd.(*entry.Publish)
		if !ok {
			continue
		}
		r, properties := read(p)
		vhost := core.VhostNumber(c.d.Machine, p.Session)
		byHeaders := core.RoutesByHeaders(c.d.Machine, vhost)
		x := taken{letter: letterOf(&r, &properties, byHeaders), ttl: -1, stamp: c.d.Machine.Stamp()}
		if core.IsNamed(c.d.Machine, p.Session) && p.Marked() {
			x.as = published{p.Session, fmt.Sprint(string(p.DedupID), " ", string(p.Publisher), p.Sequence)}
		}
		x.special = len(r.Exchange) > 0 || properties.Priority > 0 || len(x.letter.CC)+len(x.letter.BCC) > 0 || x.letter.Headers != nil
		if n, err := strconv.ParseInt(properties.Expiration, 10, 64); err == nil {
			x.ttl = n
		}
		for at, look := range c.queues {
			if at[0] == vhost && look.DeadLetters {
				x.deadly = append(x.deadly, at[1])
			}
		}
		c.records[message.NewLoc(c.d.Index, bytes.Index(c.d.Data, p.Record))] = x
	}
}

func read(p *entry.Publish) (r message.Record, properties message.Properties) {
	if message.ParseRecord(p.Record, &r) == nil {
		properties, _ = message.ParseProperties(r.Properties)
	}
	return r, properties
}

// letterOf is what the broker may have to know of a message to route it again.
func letterOf(r *message.Record, properties *message.Properties, byHeaders bool) core.Letter {
	headers, _ := message.ParseTable(properties.Headers)
	x := core.Letter{Key: string(r.RoutingKey), CC: texts(headers, "CC"), BCC: texts(headers, "BCC"), Priority: properties.Priority}
	if byHeaders && len(properties.Headers) > 0 {
		x.Headers = message.AppendTable(nil, headers)
	}
	return x
}

func texts(t message.Table, key string) (list []string) {
	value, _ := t.Get(key)
	all, _ := value.([]any)
	for _, x := range all {
		if text, ok := x.(string); ok {
			list = append(list, text)
		}
	}
	return list
}

// marked checks that a message which is new to a queue has there the priority and the time that its publisher and the queue say, and beside it what
// its death will need: whether it came at once, by a transaction, or after a delay.
func (c *calm) marked(has map[core.CopyOf]core.Copy, looks map[[2]uint32]core.QueueLook) {
	if core.Topology(c.d.Machine) != c.topology {
		return
	}
	letters := core.Letters(c.d.Machine)
	for at, x := range has {
		if _, had := c.had[at]; had {
			continue
		}
		p, known := c.records[x.Loc]
		look := looks[[2]uint32{at.Vhost, at.Queue}]
		letter, kept := letters[core.MessageOf{Vhost: at.Vhost, Number: at.Number}]
		priority, ttl := p.letter.Priority, p.ttl
		switch {
		case letter.Moved:
			priority, ttl = letter.Priority, -1
		case !known:
			continue
		case c.again(x.Loc, &p):
			c.t.Fatalf("message %d of %s was published as %+v, which has been taken in before", at.Number, look.Name, p.as)
		case kept && !reflect.DeepEqual(letter, p.letter):
			c.t.Fatalf("message %d, published as %+v, has the letter %+v", at.Number, p.letter, letter)
		case !kept && p.special && look.DeadLetters && slices.Contains(p.deadly, at.Queue):
			c.t.Fatalf("message %d of %s, published as %+v, has no letter", at.Number, look.Name, p.letter)
		}
		if look.TTL >= 0 && (ttl < 0 || look.TTL < ttl) {
			ttl = look.TTL
		}
		expires := int64(0)
		if ttl >= 0 {
			expires = c.d.Machine.Stamp() + ttl
		}
		if x.Priority != int(min(priority, look.MaxPriority)) || x.Expires != expires {
			c.t.Fatalf("message %d of %s, published as %+v with TTL %d, is %+v", at.Number, look.Name, p.letter, p.ttl, x)
		}
	}
}

// again says whether another publish under the same name has been taken in, as far as its session remembers.
func (c *calm) again(loc message.Loc, p *taken) bool {
	if p.as == (published{}) {
		return false
	}
	first, ok := c.entered[p.as]
	if was := c.records[first]; ok && first != loc && c.d.Machine.Stamp() < was.stamp+remembered {
		return true
	}
	c.entered[p.as] = loc
	return false
}
