package core

import (
	"bytes"

	"github.com/understudy-mq/understudy/core/message"
)

// Extra is what the broker adds to a message when it is delivered: its content stays as it was published. It is not
// changed once made, and may be read from any goroutine.
type Extra struct {
	Failed      uint32 // failed deliveries so far, of a queue that counts them
	Moved       bool   // it was dead-lettered: what follows counts
	Exchange    string // that it came by
	RoutingKey  string
	NewKey      bool // the key replaced the message's own and its CC
	FirstQueue  string
	FirstReason string
	Deaths      []Death // most recent first
}

// Render makes of a record what a client is to see: without its BCC header, and with what extra (nil for nothing) says:
// the headers x-death, x-first-death-*, x-last-death-* and x-delivery-count as RabbitMQ writes them, and the exchange and
// key of a dead letter, which has lost its expiration. Records in other forms than FormAMQP091 stay as they are.
func Render(r *message.Record, extra *Extra) {
	hidden := message.HasAny(r.Properties, message.PropHeaders) && bytes.Contains(r.Properties, []byte("\x03BCC"))
	if extra == nil && !hidden || r.Form != message.FormAMQP091 {
		return
	}
	p, err := message.ParseProperties(r.Properties)
	if err != nil {
		return // the endpoint that took it in has checked it
	}
	headers, err := message.ParseTable(p.Headers)
	if err != nil {
		return
	}
	headers = withoutField(headers, copyHeaders[1])
	if extra != nil {
		headers = extra.headers(headers, r, &p)
		if extra.Moved {
			r.Exchange, r.RoutingKey = []byte(extra.Exchange), []byte(extra.RoutingKey)
			p.Set &^= message.PropExpiration
		}
	}
	p.Set |= message.PropHeaders
	p.Headers = message.AppendTable(nil, headers)
	r.Properties = message.AppendProperties(nil, &p)
}

// withoutField answers a table without a field.
func withoutField(t message.Table, key string) message.Table {
	out := t[:0]
	for _, f := range t {
		if f.Key != key {
			out = append(out, f)
		}
	}
	return out
}

// set gives a table's field a value.
func set(t message.Table, key string, value any) message.Table {
	for i := range t {
		if t[i].Key == key {
			t[i].Value = value
			return t
		}
	}
	return append(t, message.Field{Key: key, Value: value})
}

func (x *Extra) headers(t message.Table, r *message.Record, p *message.Properties) message.Table {
	if x.Moved {
		published := Death{Exchange: string(r.Exchange), Keys: append([]string{string(r.RoutingKey)}, texts(t, copyHeaders[0])...)}
		if x.NewKey {
			t = withoutField(t, copyHeaders[0])
		}
		if _, ok := t.Get("x-first-death-reason"); !ok {
			t = set(t, "x-first-death-reason", x.FirstReason)
			t = set(t, "x-first-death-queue", x.FirstQueue)
			t = set(t, "x-first-death-exchange", published.Exchange)
		}
		last := x.Deaths[0]
		if last.Published {
			last.Exchange = published.Exchange
		}
		t = set(t, "x-last-death-reason", last.Reason)
		t = set(t, "x-last-death-queue", last.Queue)
		t = set(t, "x-last-death-exchange", last.Exchange)
		former, _ := t.Get("x-death")
		t = set(t, "x-death", x.deaths(former, &published, p))
	}
	if x.Failed > 0 {
		t = set(t, "x-delivery-count", int64(x.Failed))
	}
	return t
}

// deathsShown is how many deaths a client is told of: a message that walked through many queues must still fit its
// properties into one frame. The machine knows them all, or a long cycle would never end.
const deathsShown = 64

// deaths merges the deaths into what the publisher sent as x-death: a message that a client publishes again with its
// headers goes on counting. Whatever is no table with a queue and a reason is left out, and so are the oldest of more
// than deathsShown.
func (x *Extra) deaths(former any, published *Death, p *message.Properties) []any {
	list, _ := former.([]any)
	var out []any
	for _, item := range list {
		if t, ok := item.(message.Table); ok && isDeath(t) {
			out = append(out, t)
		}
	}
	for i := len(x.Deaths) - 1; i >= 0; i-- {
		d := x.Deaths[i]
		at := -1
		for j, item := range out {
			if t := item.(message.Table); text(t, "queue") == d.Queue && text(t, "reason") == d.Reason {
				at = j
				break
			}
		}
		var t message.Table
		if at >= 0 {
			t = out[at].(message.Table)
			count, _ := t.Get("count")
			n, _ := message.Integer(count)
			t = set(t, "count", n+int64(d.Count))
			out = append(out[:at:at], out[at+1:]...)
		} else {
			t = d.table(published, p)
		}
		out = append([]any{t}, out...)
	}
	return out[:min(len(out), deathsShown)]
}

func isDeath(t message.Table) bool {
	return text(t, "queue") != "" && text(t, "reason") != ""
}

func text(t message.Table, key string) string {
	value, _ := t.Get(key)
	s, _ := value.(string)
	return s
}

// table is one element of x-death.
func (d *Death) table(published *Death, p *message.Properties) message.Table {
	exchange, keys := d.Exchange, d.Keys
	if d.Published {
		exchange, keys = published.Exchange, published.Keys
	}
	list := make([]any, 0, len(keys))
	for _, k := range keys {
		list = append(list, k)
	}
	t := message.Table{{Key: "count", Value: int64(d.Count)}, {Key: "reason", Value: d.Reason}, {Key: "queue", Value: d.Queue},
		{Key: "time", Value: message.Timestamp(d.Time)}, {Key: "exchange", Value: exchange}, {Key: "routing-keys", Value: list}}
	if d.Published && p.Has(message.PropExpiration) {
		t = append(t, message.Field{Key: "original-expiration", Value: p.Expiration})
	}
	return t
}
