package coretest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

// Script carries out one directive of a datadriven script and answers what to print:
//
//	run         each line is an entry of its own
//	batch       all lines are one batch of one entry (of the node that holds the first one's session)
//	setup       node 1, vhost / and a session per argument: setup 2 attaches s1 and s2, with channel 1 open
//	state       queues, consumers and sessions
//	topology    exchanges (but for the predeclared ones) and bindings
//	registry    vhosts and permissions as the system group knows them
//	restart     a checkpoint, and a machine loaded from the rows
//	promote     the standby that has followed so far is promoted, and is the machine from now on
//	wait        time passes, wait 100 is 100 ms of it, with a Tick whenever one is due, as the leader proposes them
//	live        how many references to log content there are
func (d *Driver) Script(x *datadriven.TestData) string {
	switch x.Cmd {
	case "run":
		var out strings.Builder
		for text := range strings.Lines(x.Input) {
			out.WriteString(d.print(d.entryOf([]string{strings.TrimSpace(text)})))
		}
		return out.String()
	case "batch":
		return d.print(d.entryOf(strings.Split(strings.TrimSpace(x.Input), "\n")))
	case "setup":
		return d.setup(x)
	case "state":
		return d.state()
	case "topology":
		return d.topology()
	case "registry":
		return d.registry()
	case "restart":
		d.Restart()
		return ""
	case "promote":
		d.Promote()
		return ""
	case "wait":
		return d.wait(x)
	case "live":
		return fmt.Sprintf("%d live\n", d.Live())
	}
	return fmt.Sprintf("no directive is called %q", x.Cmd)
}

func (d *Driver) wait(x *datadriven.TestData) string {
	n := int64(0)
	if len(x.CmdArgs) > 0 {
		n, _ = strconv.ParseInt(x.CmdArgs[0].Key, 10, 64)
	}
	var out strings.Builder
	for end := d.Stamp + n; ; {
		due := d.Machine.NextDeadline()
		if due == 0 || due > end {
			d.Stamp = end
			break
		}
		d.Stamp = max(d.Stamp, due)
		d.interrupt()
		fmt.Fprintf(&out, "tick\n%s", d.print(d.Control(&entry.Tick{})))
	}
	return out.String()
}

func (d *Driver) interrupt() {
	if d.Interrupt != nil {
		d.Interrupt()
	}
}

func (d *Driver) setup(x *datadriven.TestData) string {
	d.Control(&entry.NodeUp{Node: 1, Nonce: 7}, &entry.VhostCreate{ID: "v1", Name: "/"})
	n := 1
	if len(x.CmdArgs) > 0 {
		n, _ = strconv.Atoi(x.CmdArgs[0].Key)
	}
	for i := range n {
		d.Batch(1, &entry.Attach{Request: uint64(i + 1), Vhost: "/", User: "guest", Connection: fmt.Sprintf("c%d", i+1)})
		d.Batch(1, &entry.ChannelOpen{Ref: entry.Ref{Session: uint64(i + 1), Epoch: 1, Channel: 1}})
	}
	return ""
}

// entryOf makes one entry of lines. The word on=N names another node than the session's, epoch=N another epoch, and
// seq=N and incarnation=N another place in the node's sequence, for what must be ignored.
func (d *Driver) entryOf(lines []string) []core.Effect {
	d.t.Helper()
	d.interrupt()
	var cmds []entry.Command
	node, seq, incarnation := uint64(0), uint64(0), uint64(0)
	for i, text := range lines {
		l, err := parseLine(text)
		if err != nil {
			d.t.Fatal(err)
		}
		at := d.homes[l.session]
		if e := l.number("epoch"); e != 0 {
			at.epoch = e
		}
		if n := l.number("on"); n != 0 {
			at.node = n
		}
		if i == 0 {
			node, seq = at.node, l.number("seq")
			if l.verb != "node-down" {
				incarnation = l.number("incarnation")
			}
		}
		cmd, err := l.command(at.epoch)
		if err != nil {
			d.t.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}
	switch {
	case node == 0:
		return d.Control(cmds...)
	case seq == 0 && incarnation == 0:
		return d.Batch(node, cmds...)
	}
	if incarnation == 0 {
		incarnation, _, _ = d.Machine.Incarnation(node)
		incarnation = max(incarnation, 1)
	}
	return d.Apply(Entry(d.Stamp, entry.Batch{Node: node, Incarnation: incarnation, Seq: seq, Commands: encode(cmds)}))
}

func (d *Driver) print(effects []core.Effect) string {
	var out strings.Builder
	for i := range effects {
		out.WriteString(Format(&effects[i]))
		out.WriteByte('\n')
	}
	return out.String()
}

var kindNames = map[entry.Kind]string{entry.KindAttach: "attach", entry.KindEnd: "end", entry.KindChannelOpen: "open",
	entry.KindChannelClose: "close", entry.KindConfirmSelect: "confirm", entry.KindQos: "qos", entry.KindExchangeDeclare: "exchange",
	entry.KindExchangeDelete: "exchange-delete", entry.KindExchangeBind: "exchange-bind", entry.KindExchangeUnbind: "exchange-unbind",
	entry.KindQueueDeclare: "queue", entry.KindQueueDelete: "queue-delete", entry.KindQueuePurge: "purge", entry.KindQueueBind: "bind",
	entry.KindQueueUnbind: "unbind", entry.KindConsume: "consume", entry.KindCancel: "cancel", entry.KindGet: "get",
	entry.KindPublish: "publish", entry.KindFragment: "fragment", entry.KindSettle: "settle", entry.KindRecover: "recover",
	entry.KindVhostPut: "vhost-put", entry.KindVhostBury: "vhost-bury", entry.KindVhostFound: "vhost-found",
	entry.KindUserPut: "user", entry.KindPermissionSet: "permit", entry.KindTxSelect: "tx-select", entry.KindTxCommit: "tx-commit", entry.KindTxRollback: "tx-rollback"}

var codeNames = map[core.Code]string{core.CodeNoRoute: "no-route", core.CodeAccessRefused: "access-refused", core.CodeNotFound: "not-found",
	core.CodeResourceLocked: "resource-locked", core.CodePreconditionFailed: "precondition-failed", core.CodeSyntaxError: "syntax-error",
	core.CodeChannelError: "channel-error", core.CodeNotAllowed: "not-allowed", core.CodeNotImplemented: "not-implemented",
	core.CodeInternalError: "internal-error"}

// Format prints an effect on one line.
func Format(e *core.Effect) string {
	where := fmt.Sprintf("s%d", e.Session)
	if e.Channel != 0 {
		where += fmt.Sprintf(".%d", e.Channel)
	}
	switch e.Kind {
	case core.EffectNode:
		return fmt.Sprintf("node %d incarnation %d nonce %d", e.Node, e.Incarnation, e.Request)
	case core.EffectReply:
		if e.Session == 0 {
			where = fmt.Sprintf("request %d of node %d", e.Request, e.Node)
		}
		return fmt.Sprintf("%s %s ok%s", where, kindNames[e.Command], counts(e))
	case core.EffectRefused:
		if e.Session == 0 {
			where = fmt.Sprintf("request %d of node %d", e.Request, e.Node)
		}
		return fmt.Sprintf("%s %s refused %s: %s", where, kindNames[e.Command], codeNames[e.Code], e.Text)
	case core.EffectAttached:
		return fmt.Sprintf("%s attached to node %d, epoch %s, request %d%s", where, e.Node, epochText(e.Epoch), e.Request, attachedText(e))
	case core.EffectDetached:
		if e.Command != entry.KindNone {
			where += fmt.Sprintf(" of node %d, epoch %s,", e.Node, epochText(e.Epoch))
		}
		return fmt.Sprintf("%s detached: %s", where, e.Text)
	case core.EffectStatus:
		return where + " status" + statusText(e.Status)
	case core.EffectConfirmed:
		return fmt.Sprintf("%s confirmed %d", where, e.Count)
	case core.EffectNacked:
		return fmt.Sprintf("%s refused %d", where, e.Count)
	case core.EffectReturned:
		return fmt.Sprintf("%s returned %s%s", where, e.Text, contentText(e))
	case core.EffectDelivered:
		return fmt.Sprintf("%s delivered %d to %s%s%s", where, e.Tag, e.Name, contentText(e), deliveryFlags(e))
	case core.EffectGot:
		return fmt.Sprintf("%s got %d%s%s, %d left", where, e.Tag, contentText(e), deliveryFlags(e), e.Messages)
	case core.EffectGetEmpty:
		return where + " got nothing"
	case core.EffectConsumerCancelled:
		return fmt.Sprintf("%s consumer %s cancelled", where, e.Name)
	}
	return fmt.Sprintf("%s effect %d", where, e.Kind)
}

func epochText(epoch uint64) string {
	if generation, counter := core.EpochParts(epoch); generation != 0 {
		return fmt.Sprintf("%d.%d", generation, counter)
	}
	return strconv.FormatUint(epoch, 10)
}

func attachedText(e *core.Effect) string {
	text := ""
	if e.State != core.StateNew {
		text = fmt.Sprintf(", %s, in-flight %d", e.State, e.Messages)
	}
	if e.Count > 0 {
		text += fmt.Sprintf(", released %d", e.Count)
	}
	if e.Name != "" {
		text += ", address " + e.Name
	}
	return text
}

func statusText(x *core.SessionStatus) string {
	text := fmt.Sprintf(" %s expiry=%d in-flight=%d released=%d", x.State, x.Expiry, x.InFlight, x.Released)
	for _, h := range x.Channels {
		text += fmt.Sprintf(", channel %d highest %d in flight %v", h.Number, h.Highest, h.InFlight)
	}
	for _, p := range x.Publishers {
		text += fmt.Sprintf(", publisher %s last %d", p.Name, p.Last)
	}
	return text
}

func counts(e *core.Effect) string {
	switch e.Command {
	case entry.KindQueueDeclare:
		return fmt.Sprintf(" %s messages=%d consumers=%d", e.Name, e.Messages, e.Consumers)
	case entry.KindQueueDelete, entry.KindQueuePurge:
		return fmt.Sprintf(" messages=%d", e.Messages)
	case entry.KindConsume, entry.KindCancel:
		return " " + e.Name
	}
	return ""
}

// contentText is the message's number, and its body where the effect carries it.
func contentText(e *core.Effect) string {
	text := fmt.Sprintf(" #%d", e.Number)
	var r message.Record
	if e.Record != nil && message.ParseRecord(e.Record, &r) == nil {
		text += fmt.Sprintf(" %q", r.Body)
	}
	if e.Extra != nil {
		text += extraText(e)
	}
	if len(e.Parts) > 0 {
		text += fmt.Sprintf(" with %d parts", len(e.Parts))
	}
	return text
}

// extraText is what the broker added, as a client sees it where the effect carries the record.
func extraText(e *core.Effect) string {
	x := e.Extra
	text := ""
	if x.Moved {
		text += fmt.Sprintf(" by %q key %q, first death %s of %s, deaths", x.Exchange, x.RoutingKey, x.FirstReason, x.FirstQueue)
		for _, d := range x.Deaths {
			text += fmt.Sprintf(" %s of %s x%d", d.Reason, d.Queue, d.Count)
		}
	}
	if x.Failed > 0 {
		text += fmt.Sprintf(" failed %d", x.Failed)
	}
	return text
}

func deliveryFlags(e *core.Effect) string {
	text := ""
	for _, f := range []struct {
		set  bool
		name string
	}{{e.Redelivered, " redelivered"}, {e.NoAck, " no-ack"}, {e.Windowed, " windowed"}} {
		if f.set {
			text += f.name
		}
	}
	return text
}

func (d *Driver) state() string {
	var out strings.Builder
	for _, v := range d.Machine.Vhosts() {
		for _, q := range d.Machine.Queues(v.Name) {
			fmt.Fprintf(&out, "queue %s ready=%d unacked=%d consumers=%d bytes=%d%s\n", q.Name, q.Ready, q.Unacknowledged, q.Consumers, q.ReadyBytes,
				strings.TrimRight(" "+q.Policy+" "+q.OperatorPolicy, " "))
		}
		for _, c := range d.Machine.Consumers(v.Name) {
			waits := ""
			if !c.Active {
				waits = " waits"
			}
			fmt.Fprintf(&out, "consumer %s of %s on s%d.%d in-flight=%d%s\n", c.Tag, c.Queue, c.Session, c.Channel, c.InFlight, waits)
		}
		for _, s := range d.Machine.Sessions(v.Name) {
			where := fmt.Sprintf("on node %d", s.Node)
			if !s.Attached {
				where = fmt.Sprintf("detached until %d", s.ExpiresAt)
			}
			fmt.Fprintf(&out, "session s%d %s channels=%d in-flight=%d\n", s.ID, where, s.Channels, s.InFlight)
		}
	}
	return out.String()
}

func (d *Driver) topology() string {
	var out strings.Builder
	for _, v := range d.Machine.Vhosts() {
		for _, x := range d.Machine.Exchanges(v.Name) {
			if x.Name != "" && !strings.HasPrefix(x.Name, "amq.") {
				fmt.Fprintf(&out, "exchange %s %s\n", x.Name, x.Type)
			}
		}
		for _, b := range d.Machine.Bindings(v.Name) {
			fmt.Fprintf(&out, "binding %s -> %s key=%q\n", b.Source, b.Destination, b.Key)
		}
	}
	return out.String()
}

func (d *Driver) registry() string {
	var out strings.Builder
	for _, v := range d.Machine.RegisteredVhosts() {
		buried := ""
		if v.Buried {
			buried = " buried"
		}
		fmt.Fprintf(&out, "vhost %s id=%s group=%d description=%q tags=%v type=%q%s\n", v.Name, v.ID, v.Group, v.Description, v.Tags, v.QueueType, buried)
	}
	for _, p := range d.Machine.Permissions() {
		fmt.Fprintf(&out, "%s may %q %q %q in %s\n", p.User, p.Configure, p.Write, p.Read, p.Vhost)
	}
	for _, v := range d.Machine.HeldVhosts() {
		fmt.Fprintf(&out, "held: %s id=%s type=%q\n", v.Name, v.ID, v.QueueType)
	}
	return out.String()
}
