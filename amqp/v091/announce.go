package v091

import (
	"encoding/json"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
	"github.com/understudy-mq/understudy/session"
)

// A queue that is bound to one of the broker's own exchanges is told at once how things stand, and of changes as they come:
// amq.session has the keys hosts, generation and session (this one tells of the session that bound it); amq.failover, and
// amq.qpid with the key cluster, tell of hosts in the way of Qpid.

// AnnounceHosts is the message about the cluster's nodes that queues bound to an exchange of those are sent.
func AnnounceHosts(exchange string, hosts []string) (key string, properties, body []byte) {
	key = "hosts"
	headers := message.Table{{Key: "x-session-hosts", Value: joinHosts(hosts)}}
	if exchange != "amq.session" {
		key = "cluster"
		urls := make([]any, len(hosts))
		for i, h := range hosts {
			urls[i] = "amqp:tcp:" + h
		}
		headers = message.Table{{Key: "amq.failover", Value: urls}}
	}
	body, err := json.Marshal(hosts)
	if err != nil || exchange != "amq.session" { // Qpid's has none
		body = nil
	}
	return key, announcement(headers), body
}

// AnnounceGeneration is the message about the cluster's generation, which a promotion raises.
func AnnounceGeneration(generation uint64) (properties, body []byte) {
	body, err := json.Marshal(generation)
	if err != nil { // of a number: never
		body = nil
	}
	return announcement(message.Table{{Key: "x-session-generation", Value: int64(generation)}}), body
}

func announcement(headers message.Table) []byte {
	return message.AppendProperties(nil, &message.Properties{
		Set: message.PropContentType | message.PropHeaders, ContentType: "application/json", Headers: message.AppendTable(nil, headers),
	})
}

// bindAnnouncements binds a queue to an exchange of the broker's, and notes what it is to be told once that is done.
func (r *receiver) bindAnnouncements(ch *channel, m *wire.QueueBind) *fault {
	if fault := checkTable(m.ID(), m.Arguments); fault != nil {
		return fault
	}
	w := wanted{what: wantHosts, quietly: m.NoWait, source: m.Exchange, queue: m.Queue}
	if m.Exchange == "amq.session" {
		switch m.RoutingKey {
		case "generation":
			w.what = wantGeneration
		case "session":
			w.what = wantSession
		}
	}
	r.shared.answers.expect(ch.number, w)
	ref := entry.Ref{Channel: ch.number}
	r.do(&entry.QueueBind{Binding: entry.Binding{
		Ref: ref, Destination: m.Queue, Source: m.Exchange, Key: m.RoutingKey, Arguments: m.Arguments,
	}})
	if w.what == wantSession {
		r.askStatus(ch, wanted{what: wantAnnounced, queue: m.Queue})
	}
	return nil
}

// bound tells a queue that was just bound how things stand.
func (s *sender) bound(w wanted, e *session.Event) {
	switch w.what {
	case wantHosts:
		_, properties, body := AnnounceHosts(w.source, s.hosts())
		s.told(w.queue, properties, body)
	case wantGeneration:
		generation, _ := core.EpochParts(e.Epoch)
		properties, body := AnnounceGeneration(generation)
		s.told(w.queue, properties, body)
	}
}
