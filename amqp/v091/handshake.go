package v091

import (
	"errors"
	"slices"
	"strings"

	"github.com/understudy-mq/understudy/amqp/sasl"
	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/message"
	"github.com/understudy-mq/understudy/session"
)

// Header is the protocol header of AMQP 0-9-1, and what a server answers to any other.
const Header = "AMQP\x00\x00\x09\x01"

// HeaderOld is the header of 0-9, which clients of older make send; 0-9-1 serves them.
const HeaderOld = "AMQP\x01\x01\x00\x09"

// start opens the handshake, after the client's protocol header.
func (r *receiver) start() {
	r.out.notify(&wire.ConnectionStart{
		VersionMajor: 0, VersionMinor: 9,
		ServerProperties: message.AppendTable(nil, r.serverProperties()),
		Mechanisms:       []byte(sasl.Mechanisms(r.world.certified())),
		Locales:          []byte("en_US"),
	})
}

func (r *receiver) serverProperties() message.Table {
	var capabilities message.Table
	for _, name := range []string{
		"publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify", "connection.blocked",
		"consumer_priorities", "authentication_failure_close", "per_consumer_qos", "direct_reply_to", "session_resumption",
	} {
		capabilities = append(capabilities, message.Field{Key: name, Value: true})
	}
	return message.Table{
		{Key: "capabilities", Value: capabilities},
		{Key: "cluster_name", Value: r.opts.ClusterName()},
		{Key: "information", Value: "https://github.com/understudy-mq/understudy"},
		{Key: "platform", Value: r.opts.Platform},
		{Key: "product", Value: r.opts.Product},
		{Key: "version", Value: r.opts.Version},
		{Key: "x-session-version", Value: int32(1)},
	}
}

// handshake takes a frame before the connection is open: the one method that is due, or connection.close.
func (r *receiver) handshake(f *wire.Frame) *fault {
	if f.Type != wire.FrameMethod {
		return refuse(core.CodeUnexpectedFrame, 0, "type %d in connection state %s", f.Type, r.phase)
	}
	id, args, ok := wire.SplitMethod(f.Payload)
	if !ok {
		return noMethod(f)
	}
	due := [...]wire.ID{wire.IDConnectionStartOk, wire.IDConnectionTuneOk, wire.IDConnectionOpen}[r.phase]
	if f.Channel != 0 || id != due && id != wire.IDConnectionClose {
		return refuse(core.CodeCommandInvalid, id, "unexpected method in connection state %s", r.phase)
	}
	m := wire.New(id)
	if fault := decode(m, args); fault != nil {
		return fault
	}
	switch m := m.(type) {
	case *wire.ConnectionStartOk:
		return r.startOk(m)
	case *wire.ConnectionTuneOk:
		return r.tuneOk(m)
	case *wire.ConnectionOpen:
		return r.open(m)
	case *wire.ConnectionClose:
		r.closedByClient(m)
	}
	return nil
}

func (r *receiver) startOk(m *wire.ConnectionStartOk) *fault {
	if fault := r.describe(m.ClientProperties); fault != nil {
		return fault
	}
	credentials, err := sasl.Parse(m.Mechanism, m.Response, r.world.certified())
	if errors.Is(err, sasl.ErrMechanism) {
		return refuse(core.CodeCommandInvalid, m.ID(), "unknown authentication mechanism '%.64s'", m.Mechanism)
	}
	if err == nil {
		r.user, err = r.world.login(credentials)
	} else {
		_, _ = r.world.login(sasl.Credentials{}) // the same delay, and a line in the log
	}
	if !errors.As(err, &r.unjudged) && err != nil {
		return r.loginRefused(m, err)
	}
	r.phase = awaitTuneOk
	r.out.notify(&wire.ConnectionTune{
		ChannelMax: r.opts.ChannelMax, FrameMax: r.opts.FrameMax, Heartbeat: uint16(r.opts.Heartbeat.Seconds()),
	})
	return nil
}

// loginRefused says so to a client that can hear it. Others learn it from the closed socket, as the specification has it.
func (r *receiver) loginRefused(m *wire.ConnectionStartOk, err error) *fault {
	r.log.Warn("login refused", "mechanism", m.Mechanism, "reason", err)
	if !r.client.authenticationFailureClose {
		r.phase = finished
		return nil
	}
	return &fault{
		code: core.CodeAccessRefused, id: m.ID(), hard: true,
		text: "Login was refused using authentication mechanism " + m.Mechanism + ". For details see the broker logfile.",
	}
}

// describe reads the client's properties.
func (r *receiver) describe(properties []byte) *fault {
	if fault := checkTable(wire.IDConnectionStartOk, properties); fault != nil {
		return fault
	}
	table, err := message.ParseTable(properties)
	if err != nil {
		return refuse(core.CodeSyntaxError, wire.IDConnectionStartOk, "connection.start-ok: %v", err)
	}
	c := &r.client
	c.properties, c.name = table, session.ConnectionName(table)
	c.shown = shown(session.Presentable(table))
	v, _ := table.Get("capabilities")
	capabilities, _ := v.(message.Table)
	for key, to := range map[string]*bool{
		"authentication_failure_close": &c.authenticationFailureClose,
		"consumer_cancel_notify":       &c.consumerCancelNotify,
		"connection.blocked":           &c.connectionBlocked,
	} {
		if v, ok := capabilities.Get(key); ok {
			*to, _ = v.(bool)
		}
	}
	r.shared.cancelNotify.Store(c.consumerCancelNotify)
	return nil
}

// shownMax bounds what is kept of a client's properties for listings.
const shownMax = 4096

// shown is a field table of as many of the properties as fit.
func shown(properties message.Table) []byte {
	room := shownMax
	fitting := slices.DeleteFunc(properties, func(f message.Field) bool {
		size := len(message.AppendTable(nil, message.Table{f}))
		if size > room {
			return true
		}
		room -= size
		return false
	})
	return message.AppendTable(nil, fitting)
}

// tuneOk settles the limits. 0 is no limit of the client's own: ours holds.
func (r *receiver) tuneOk(m *wire.ConnectionTuneOk) *fault {
	const lower, higher = "negotiated %s = %d is lower than the minimum allowed value (%d)", "negotiated %s = %d is higher than the maximum allowed value (%d)"
	defaults(&m.FrameMax, r.opts.FrameMax)
	defaults(&m.ChannelMax, r.opts.ChannelMax)
	switch {
	case m.FrameMax < wire.FrameMaxMin:
		return refuse(core.CodeNotAllowed, m.ID(), lower, "frame_max", m.FrameMax, wire.FrameMaxMin)
	case m.FrameMax > r.opts.FrameMax:
		return refuse(core.CodeNotAllowed, m.ID(), higher, "frame_max", m.FrameMax, r.opts.FrameMax)
	case m.ChannelMax > r.opts.ChannelMax:
		return refuse(core.CodeNotAllowed, m.ID(), higher, "channel_max", m.ChannelMax, r.opts.ChannelMax)
	}
	r.frameMax, r.channelMax = m.FrameMax, m.ChannelMax
	r.world.tuned(m.FrameMax, m.Heartbeat)
	r.phase = awaitOpen
	return nil
}

// open attaches the connection. Where a named session is refused, the client hears that behind open-ok: many hide the reason
// of a connection that does not open.
func (r *receiver) open(m *wire.ConnectionOpen) *fault {
	if r.unjudged != nil {
		return refusal(r.unjudged, m.ID())
	}
	s, err := r.world.attach(session.Attach{Vhost: m.VirtualHost, User: r.user, Properties: r.client.properties})
	r.client.properties = nil
	if err != nil {
		f := refusal(err, m.ID())
		if f.named {
			r.out.notify(&wire.ConnectionOpenOk{})
		}
		return f
	}
	r.session, r.grant, r.vhost = s, s.Grant(), m.VirtualHost
	r.phase = running
	ok := &wire.ConnectionOpenOk{}
	if r.grant.Named {
		r.shared.grant.Store(&r.grant)
		ok.KnownHosts = joinHosts(r.opts.Hosts())
	}
	r.out.notify(ok)
	return nil
}

// joinHosts is the addresses as one short string: as many as fit.
func joinHosts(hosts []string) string {
	var b strings.Builder
	for _, h := range hosts {
		if b.Len()+1+len(h) > 255 {
			break
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(h)
	}
	return b.String()
}
