package coretest

import (
	"fmt"
	"strings"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

// Record encodes a message whose properties are an optional header table.
func Record(exchange, key string, headers []byte, body string) []byte {
	p := message.Properties{}
	if headers != nil {
		p.Set, p.Headers = message.PropHeaders, headers
	}
	return RecordWith(&p, exchange, key, body)
}

// RecordWith encodes a message with properties.
func RecordWith(p *message.Properties, exchange, key, body string) []byte {
	r := message.Record{Form: message.FormAMQP091, Exchange: []byte(exchange), RoutingKey: []byte(key),
		Properties: message.AppendProperties(nil, p), BodySize: uint64(len(body))}
	return append(message.AppendRecord(nil, &r), body...)
}

// record makes the message that a publish line says: its arguments are the headers.
func (l *line) record() []byte {
	p := message.Properties{}
	if headers := l.arguments(); headers != nil {
		p.Set, p.Headers = message.PropHeaders, headers
	}
	if text, ok := l.values["expiration"]; ok {
		p.Set |= message.PropExpiration
		p.Expiration = text
	}
	if _, ok := l.values["priority"]; ok {
		p.Set |= message.PropPriority
		p.Priority = uint8(l.number("priority"))
	}
	return RecordWith(&p, l.values["exchange"], l.values["key"], l.values["body"])
}

// command makes the command that a line says, for a session under an epoch.
func (l *line) command(epoch uint64) (entry.Command, error) {
	ref := entry.Ref{Session: l.session, Epoch: epoch, Channel: l.channel}
	if cmd := l.control(); cmd != nil {
		return cmd, nil
	}
	for _, make := range []func(entry.Ref) entry.Command{l.channelCommand, l.topology, l.delivery} {
		if cmd := make(ref); cmd != nil {
			return cmd, nil
		}
	}
	return nil, fmt.Errorf("no command is called %q", l.verb)
}

func (l *line) control() entry.Command {
	switch l.verb {
	case "node-up":
		return &entry.NodeUp{Node: l.number("node"), Nonce: l.number("nonce")}
	case "node-down":
		return &entry.NodeDown{Node: l.number("node"), Incarnation: l.number("incarnation")}
	case "leader-up":
		return &entry.LeaderUp{Node: l.number("node"), Term: l.number("term")}
	case "tick":
		return &entry.Tick{}
	case "cluster-init":
		return &entry.ClusterInit{ID: l.values["id"]}
	case "vhost":
		return &entry.VhostCreate{ID: l.values["id"], Name: l.values["name"], QueueType: l.values["type"]}
	case "vhost-delete":
		return &entry.VhostDelete{ID: l.values["id"]}
	case "vhost-put":
		return &entry.VhostPut{ID: l.values["id"], Name: l.values["name"], Group: l.number("group"), Groups: l.number("groups"),
			Description: l.values["description"], Tags: l.values["tags"], QueueType: l.values["type"], Owner: l.values["owner"], First: l.flag("first")}
	case "vhost-bury":
		return &entry.VhostBury{ID: l.values["id"]}
	case "vhost-found":
		return &entry.VhostFound{ID: l.values["id"], Name: l.values["name"], Group: l.number("group"), QueueType: l.values["type"]}
	case "user":
		return &entry.UserPut{Name: l.values["name"]}
	case "permit":
		return &entry.PermissionSet{User: l.values["user"], Vhost: l.values["in"]}
	case "vhost-limit":
		return &entry.VhostLimit{Vhost: "/", MaxQueues: l.signed("queues"), Connections: l.signed("connections")}
	case "policy":
		return &entry.PolicySet{Vhost: "/", Name: l.values["name"], Pattern: l.values["pattern"], ApplyTo: l.values["to"],
			Priority: l.signed("priority"), Operator: l.flag("operator"), Definition: l.arguments()}
	case "policy-delete":
		return &entry.PolicyDelete{Vhost: "/", Name: l.values["name"], Operator: l.flag("operator")}
	case "attach":
		return l.attach()
	case "session-close":
		return &entry.SessionClose{Session: l.number("session"), Text: l.values["text"]}
	}
	return nil
}

func (l *line) attach() entry.Command {
	expect := map[string]entry.Expect{"resume": entry.ExpectResume, "new": entry.ExpectNew}
	x := &entry.Attach{Request: l.number("request"), Vhost: l.values["vhost"], User: l.values["user"], Connection: l.values["connection"],
		Key: l.values["key"], Process: l.values["process"], Expiry: uint32(l.number("expiry")), Expect: expect[l.values["expect"]],
		KeepInFlight: l.flag("keep"), KeepOnClose: l.flag("keep-on-close"), SessionsMax: uint32(l.number("most")), Address: l.values["address"],
		VhostID: l.values["vhost-id"]}
	if x.User == "" {
		x.User = "guest"
	}
	if x.Vhost == "" {
		x.Vhost = "/"
	}
	return x
}

func (l *line) channelCommand(ref entry.Ref) entry.Command {
	switch l.verb {
	case "detach":
		return &entry.Detach{Ref: ref}
	case "end":
		return &entry.End{Ref: ref}
	case "answered":
		return &entry.Answered{Ref: ref}
	case "status":
		return &entry.SessionStatus{Ref: ref}
	case "open":
		return &entry.ChannelOpen{Ref: ref}
	case "close":
		return &entry.ChannelClose{Ref: ref, Reply: true}
	case "close-ok":
		return &entry.ChannelClose{Ref: ref}
	case "confirm":
		return &entry.ConfirmSelect{Ref: ref, NoWait: l.flag("no-wait")}
	case "tx-select":
		return &entry.TxSelect{Ref: ref}
	case "tx-commit":
		return &entry.TxCommit{Ref: ref}
	case "tx-rollback":
		return &entry.TxRollback{Ref: ref}
	case "refuse": // what the guard makes of a publish that it does not let through
		return &entry.Refuse{Ref: ref, Command: entry.KindPublish, Code: uint8(core.CodeAccessRefused), Text: l.values["text"]}
	case "qos":
		return &entry.Qos{Ref: ref, Prefetch: uint32(l.tag()), Global: l.flag("global")}
	}
	return nil
}

func (l *line) topology(ref entry.Ref) entry.Command {
	binding := entry.Binding{Ref: ref, Destination: l.values["to"], Source: l.values["from"], Key: l.values["key"],
		NoWait: l.flag("no-wait"), Arguments: l.arguments()}
	switch l.verb {
	case "exchange":
		return &entry.ExchangeDeclare{Ref: ref, Name: l.values["name"], Type: l.values["type"], Passive: l.flag("passive"),
			Durable: l.flag("durable"), AutoDelete: l.flag("auto-delete"), Internal: l.flag("internal"), NoWait: l.flag("no-wait"),
			Arguments: l.arguments()}
	case "exchange-delete":
		return &entry.ExchangeDelete{Ref: ref, Name: l.values["name"], IfUnused: l.flag("if-unused"), NoWait: l.flag("no-wait")}
	case "exchange-bind":
		return &entry.ExchangeBind{Binding: binding}
	case "exchange-unbind":
		return &entry.ExchangeUnbind{Binding: binding}
	case "queue":
		return &entry.QueueDeclare{Ref: ref, Name: l.values["name"], Passive: l.flag("passive"), Durable: l.flag("durable"),
			Exclusive: l.flag("exclusive"), AutoDelete: l.flag("auto-delete"), NoWait: l.flag("no-wait"),
			Generated: l.flag("generated"), Arguments: l.arguments()}
	case "queue-delete":
		return &entry.QueueDelete{Ref: ref, Name: l.values["name"], IfUnused: l.flag("if-unused"), IfEmpty: l.flag("if-empty"), NoWait: l.flag("no-wait")}
	case "purge":
		return &entry.QueuePurge{Ref: ref, Name: l.values["name"], NoWait: l.flag("no-wait")}
	case "bind":
		return &entry.QueueBind{Binding: binding}
	case "unbind":
		return &entry.QueueUnbind{Binding: binding}
	}
	return nil
}

func (l *line) delivery(ref entry.Ref) entry.Command {
	switch l.verb {
	case "consume":
		return &entry.Consume{Ref: ref, Queue: l.values["queue"], Tag: l.values["tag"], NoAck: l.flag("no-ack"),
			Exclusive: l.flag("exclusive"), NoWait: l.flag("no-wait"), Arguments: l.arguments()}
	case "cancel":
		return &entry.Cancel{Ref: ref, Tag: l.values["tag"], NoWait: l.flag("no-wait")}
	case "get":
		return &entry.Get{Ref: ref, Queue: l.values["queue"], NoAck: l.flag("no-ack")}
	case "publish":
		return &entry.Publish{Ref: ref, Mandatory: l.flag("mandatory"), Fragmented: l.flag("fragmented"),
			DedupID: []byte(l.values["id"]), Publisher: []byte(l.values["publisher"]), Sequence: l.number("sequence"), Record: l.record()}
	case "fragment":
		return &entry.Fragment{Ref: ref, Piece: []byte(l.values["piece"])}
	case "recover":
		return &entry.Recover{Ref: ref, Requeue: !l.flag("no-requeue"), NoWait: l.flag("no-wait")}
	case "written":
		return &entry.Written{Ref: ref, Tag: l.tag()}
	}
	return l.settlement(ref)
}

// settlement reads "ack 3", "ack 2..4", "ack 3 multiple" and the like.
func (l *line) settlement(ref entry.Ref) entry.Command {
	outcomes := map[string]entry.Outcome{"ack": entry.Accepted, "reject": entry.Rejected, "release": entry.Released, "modify": entry.Modified}
	outcome, ok := outcomes[l.verb]
	if !ok {
		return nil
	}
	s := &entry.Settle{Ref: ref, Outcome: outcome, Multiple: l.flag("multiple"), First: l.tag(), Last: l.tag()}
	for _, w := range l.words {
		if first, last, ok := strings.Cut(w, ".."); ok {
			fmt.Sscan(first, &s.First)
			fmt.Sscan(last, &s.Last)
		}
	}
	return s
}
