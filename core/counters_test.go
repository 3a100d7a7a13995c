package core_test

import (
	"testing"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

// countersOf are the counters of vhost / for a node.
func countersOf(m *core.Machine, node uint64) (mine core.Counters, buried core.Buried) {
	list, buried := m.Counters("/")
	for _, c := range list {
		if c.Node == node {
			mine = c
		}
	}
	return mine, buried
}

func TestCountersCountWhatPasses(t *testing.T) {
	d := started(t)
	limited := message.AppendTable(nil, message.Table{
		{Key: "x-max-length", Value: int64(1)}, {Key: "x-dead-letter-exchange", Value: ""}, {Key: "x-dead-letter-routing-key", Value: "q"},
	})
	to := func(exchange, key string, mandatory bool) *entry.Publish {
		return &entry.Publish{Ref: ref, Mandatory: mandatory, Record: coretest.Record(exchange, key, nil, "x")}
	}
	d.Batch(1, &entry.ConfirmSelect{Ref: ref}, publish("a"), publish("b"), to("", "none", false), to("", "none", true),
		&entry.QueueDeclare{Ref: ref, Name: "small", Arguments: limited},
		&entry.QueueBind{Binding: entry.Binding{Ref: ref, Source: "amq.fanout", Destination: "small"}},
		&entry.QueueBind{Binding: entry.Binding{Ref: ref, Source: "amq.fanout", Destination: "q"}},
		to("amq.fanout", "", false), to("amq.fanout", "", false)) // the second pushes the first out of small, into q
	d.Batch(1, &entry.Get{Ref: ref, Queue: "q"}, &entry.Get{Ref: ref, Queue: "q", NoAck: true},
		&entry.Settle{Ref: ref, First: 1, Last: 1, Outcome: entry.Released}, &entry.Get{Ref: ref, Queue: "q"},
		&entry.Settle{Ref: ref, First: 3, Last: 3}, &entry.QueueDelete{Ref: ref, Name: "small"}, &entry.QueueDeclare{Ref: ref, Name: "q"},
		&entry.QueuePurge{Ref: ref, Name: "q"}, &entry.Get{Ref: ref, Queue: "q"},
		publish("c"), publish("d"), &entry.Consume{Ref: ref, Queue: "q", Tag: "t"}, &entry.Cancel{Ref: ref, Tag: "t"},
		publish("e"), &entry.Consume{Ref: ref, Queue: "q", Tag: "u", NoAck: true})
	d.Batch(1, &entry.Written{Ref: ref, Tag: 1 << 40}) // what needs no acknowledgement is none by being written
	want := core.Counters{
		Node: 1, Published: 9, PublishedConfirm: 9, PublishedBytes: 9, SessionsOpened: 1, Routed: 7, Dropped: 1, Returned: 1, Confirmed: 9, Got: 2, GotNoAck: 1, GotEmpty: 1,
		Redelivered: 1, Acknowledged: 1, Delivered: 2, DeliveredNoAck: 1, ChannelsOpened: 1, QueuesDeclared: 3, QueuesCreated: 2,
	}
	want.Sizes[0] = 9
	mine, buried := countersOf(d.Machine, 1)
	if mine != want {
		t.Errorf("node 1:\n got %+v\nwant %+v", mine, want)
	}
	if nobody, _ := countersOf(d.Machine, 0); nobody.QueuesDeleted != 1 || buried != (core.Buried{MaxLength: 1, Arrived: 1}) {
		t.Errorf("nobody's: %+v, buried %+v, want one queue deleted and one message too many", nobody, buried)
	}
	q := d.Machine.Queues("/")[0].Counters
	if want := (core.QueueCounters{Published: 8, Delivered: 2, DeliveredNoAck: 1, Redelivered: 1, Got: 2, GotNoAck: 1, GotEmpty: 1, Acknowledged: 1}); q != want {
		t.Errorf("q:\n got %+v\nwant %+v", q, want)
	}
	for _, x := range d.Machine.Exchanges("/") {
		if want := (core.ExchangeCounters{In: 2, Out: 4}); x.Name == "amq.fanout" && x.Counters != want {
			t.Errorf("amq.fanout: %+v, want %+v", x.Counters, want)
		}
	}
	d.Batch(1, &entry.ChannelClose{Ref: ref})
	if mine, _ := countersOf(d.Machine, 1); mine.ChannelsClosed != 1 {
		t.Errorf("%d channels closed, want 1", mine.ChannelsClosed)
	}
}
