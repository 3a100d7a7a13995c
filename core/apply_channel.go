package core

import (
	"slices"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/internal/ledger"
)

// channel answers the session's channel with a number, nil if it has none.
func (s *session) channel(number uint16) *channel {
	if h := s.lastUsed; h != nil && h.Number == number {
		return h
	}
	at, ok := s.searchChannel(number)
	if !ok {
		return nil
	}
	s.lastUsed = s.channels[at]
	return s.lastUsed
}

func (s *session) searchChannel(number uint16) (int, bool) {
	return slices.BinarySearchFunc(s.channels, number, func(h *channel, n uint16) int { return compare(h.Number, n) })
}

// channelOf answers the open channel that a command is for; nil if the command is dead: it is of an attachment that is
// over, or its channel or session has failed.
func (m *Machine) channelOf(r *entry.Ref) *channel {
	s := m.sessionOf(r)
	if s == nil || s.Failed {
		return nil
	}
	if h := s.channel(r.Channel); h != nil && !h.Dead {
		return h
	}
	return nil
}

func (m *Machine) applyChannelOpen(x *entry.ChannelOpen) {
	s := m.sessionOf(&x.Ref)
	if s == nil || s.Failed {
		return
	}
	h := s.channel(x.Channel)
	if h != nil && !h.Dead {
		m.refuse(h, entry.KindChannelOpen, CodeChannelError, "second 'channel.open' seen")
		return
	}
	if h != nil && !h.Parked { // it has failed
		m.forget(h)
		h = s.channel(x.Channel)
	}
	if h == nil {
		at, _ := s.searchChannel(x.Channel)
		h = newChannel(s, channelRow{Session: s.ID, Number: x.Channel, LastTag: s.Tags})
		h.flight.Loaded(s.Tags)
		s.channels = slices.Insert(s.channels, at, h)
	}
	if h.LastTag >= lastTagMax {
		m.refuse(h, entry.KindChannelOpen, CodeResourceError, "channel has no delivery tags left: begin a new session")
		return
	}
	h.Dead, h.Parked = false, false
	s.counters().ChannelsOpened++
	m.touch(h)
	m.reply(h, entry.KindChannelOpen, false)
}

func (m *Machine) applyChannelClose(x *entry.ChannelClose) {
	s := m.sessionOf(&x.Ref)
	if s == nil || s.Failed {
		return
	}
	if h := s.channel(x.Channel); h != nil {
		m.forget(h)
	}
	if !x.Reply {
		return
	}
	if e := m.emit(s, EffectReply, x.Channel); e != nil {
		e.Command = entry.KindChannelClose
	}
}

// lastTagMax leaves a channel that is opened more tags than it will ever use below 2^53, from where on some clients cannot
// tell them apart.
const lastTagMax = 1 << 52

// forget closes a channel and frees its number. In a named session tags go on when it is opened again.
func (m *Machine) forget(h *channel) {
	m.release(h, entry.Released)
	s := h.session
	s.counters().ChannelsClosed++
	if h.LastTag > s.Tags {
		h.Dead, h.Parked, h.Resumed = true, true, true
		return
	}
	at, _ := s.searchChannel(h.Number)
	s.channels = slices.Delete(s.channels, at, at+1)
	s.lastUsed = nil
	h.gone = true
	m.touch(h)
}

// release undoes all that a channel holds: its consumers go, its deliveries return to their places. how is Modified where
// its connection was lost: that counts as a failed delivery.
func (m *Machine) release(h *channel, how entry.Outcome) {
	m.rollback(h)
	h.Tx = false
	consumers := slices.Clone(h.consumers)
	for len(h.consumers) > 0 {
		m.removeConsumer(h.consumers[len(h.consumers)-1])
	}
	for tag := h.flight.Next(1); tag != 0; tag = h.flight.Next(tag + 1) {
		if h.failsAgain(tag, how) {
			m.giveBack(h, tag, how)
		}
	}
	for tag := h.flight.Before(h.LastTag); tag != 0; tag = h.flight.Before(tag - 1) {
		m.giveBack(h, tag, how)
	}
	h.flight.Clear(&m.tagPool)
	if h.session.named() {
		h.flight.Loaded(h.LastTag)
	} else {
		h.LastTag = 0
	}
	m.dropParts(h)
	for _, c := range consumers {
		m.autoDelete(c.queue)
	}
	h.Runs, h.Shortest, h.Checked = nil, 0, 0
	h.Confirm, h.Prefetch, h.Limit, h.Written, h.Served = false, 0, 0, h.LastTag, 0
	h.Owed, h.OwedGets, h.Resent = 0, 0, nil
	m.touch(h)
}

// reply says that a command has been carried out, unless the client wants no answer.
func (m *Machine) reply(h *channel, kind entry.Kind, noWait bool) *Effect {
	if noWait {
		return nil
	}
	e := m.emit(h.session, EffectReply, h.Number)
	if e != nil {
		e.Command = kind
	}
	return e
}

// replyNamed is reply with a name and counts.
func (m *Machine) replyNamed(h *channel, kind entry.Kind, noWait bool, name string, messages, consumers int) {
	if e := m.reply(h, kind, noWait); e != nil {
		e.Name, e.Messages, e.Consumers = name, uint32(messages), uint32(consumers)
	}
}

// refuse refuses a command. The channel is failed from here on, or with a hard code the session: what comes after is
// dead, and what it held is free at once, as if it were closed.
func (m *Machine) refuse(h *channel, kind entry.Kind, code Code, text string) {
	s := h.session
	if e := m.emit(s, EffectRefused, h.Number); e != nil {
		e.Command, e.Code, e.Text = kind, code, text
	}
	if code.Hard() {
		m.fail(s)
		return
	}
	m.release(h, entry.Released)
	h.Dead = true
}

// fail has a session do nothing more until it is attached anew or ends. To a named one it is like a lost connection.
func (m *Machine) fail(s *session) {
	if s.named() {
		m.parkAll(s)
	} else {
		m.closeChannels(s, entry.Released)
	}
	s.Failed = true
	m.touch(s)
}

func (m *Machine) applyConfirmSelect(x *entry.ConfirmSelect) {
	h := m.channelOf(&x.Ref)
	if h == nil {
		return
	}
	if h.Tx {
		m.refuse(h, entry.KindConfirmSelect, CodePreconditionFailed, "cannot switch from tx to confirm mode")
		return
	}
	h.Confirm = true
	m.touch(h)
	m.reply(h, entry.KindConfirmSelect, x.NoWait)
}

func (m *Machine) applyQos(x *entry.Qos) {
	h := m.channelOf(&x.Ref)
	if h == nil {
		return
	}
	if x.Global {
		h.Limit = x.Prefetch
	} else { // as RabbitMQ has it, this ends the channel's common limit
		h.Prefetch, h.Limit = x.Prefetch, 0
	}
	m.touch(h)
	m.reply(h, entry.KindQos, false)
	m.regainAll(h)
}

// confirm confirms one publish, or with EffectNacked refuses it. Those of a channel in a row become one effect.
func (m *Machine) confirm(h *channel, kind EffectKind) {
	s := h.session
	if h.Confirm {
		s.counters().answered(kind)
	}
	if !h.Confirm || m.fx.Node != 0 && m.fx.Node != s.Node {
		return
	}
	if s.lastEffect < len(m.fx.List) {
		e := &m.fx.List[s.lastEffect]
		if e.Kind == kind && e.Session == s.ID && e.Channel == h.Number && e.Epoch == s.Epoch {
			e.Count++
			return
		}
	}
	m.emit(s, kind, h.Number).Count = 1
}

// takeFlight ends a delivery and gives its credit back. It answers the delivery's queue, nil if that was deleted.
func (m *Machine) takeFlight(h *channel, tag uint64) (ledger.Record, *queue) {
	r, _ := h.flight.Take(&m.tagPool, tag)
	m.fingerprint -= flightHash(h, tag, &r)
	m.touch(h)
	v := h.session.vhost
	q := v.queueByID(r.Queue)
	c := v.consumerByNumber(r.Consumer)
	unwritten := tag > h.Written
	if r.Flags&(flagOwed|flagAgain) != 0 {
		m.settleAgain(h, &r, tag)
		unwritten = false
	}
	if r.Flags&flagNoAck == 0 {
		if q != nil {
			q.Unacked--
			q.flying -= v.sizeOf(&r.Ref)
			m.touch(q)
		}
		m.settledOne(h, c, &r)
	}
	if c != nil && c.Limit == 0 && unwritten {
		m.renew(c, &r)
	}
	return r, q
}

// settledOne counts a delivery as no longer unsettled.
func (m *Machine) settledOne(h *channel, c *consumer, r *ledger.Record) {
	if r.Consumer == 0 {
		return
	}
	full := h.Limit > 0 && h.InFlight-h.Owed >= h.Limit
	h.InFlight--
	if c != nil {
		c.InFlight--
		m.touch(c)
	}
	switch {
	case full: // c among them, in its turn
		m.regainAll(h)
	case c != nil:
		m.regain(c)
	}
}
