package core

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

// The keys of a vhost's policy that say what its confirms wait for.
const (
	policyConfirm = "link-confirm" // "async", "bounded" or "sync"
	policyMaxLag  = "link-max-lag" // of bounded: "5s", "500ms", or a number of milliseconds
	policyOnLoss  = "link-on-loss" // "block", or "degrade(10s)"
)

// ConfirmMode is what a vhost's confirms say of a standby.
type ConfirmMode uint8

// The modes.
const (
	ConfirmAsync   ConfirmMode = iota // nothing
	ConfirmBounded                    // it is not far behind: else they wait until it is not
	ConfirmSync                       // it has what was confirmed
)

var confirmModes = [...]string{"async", "bounded", "sync"}

// String is the mode as policies name it.
func (c ConfirmMode) String() string { return confirmModes[min(c, ConfirmSync)] }

// Confirm is what a vhost's policy says of confirms. Times are in milliseconds.
type Confirm struct {
	Vhost   string
	Mode    ConfirmMode
	MaxLag  int64 // of ConfirmBounded
	Degrade int64 // how long a standby may be absent before confirms wait for it no longer; none for ever
}

// defaultMaxLag is how far a standby may be behind where a policy does not say.
const defaultMaxLag = 5000

// Confirms lists the vhosts whose confirms wait for a standby in some way.
func (m *Machine) Confirms() []Confirm {
	var list []Confirm
	for _, v := range m.vhosts {
		if c := v.confirm(); c.Mode != ConfirmAsync && !v.Deleted {
			list = append(list, c)
		}
	}
	return list
}

// SessionVhost is the vhost of a session, "" if it is not there.
func (m *Machine) SessionVhost(id uint64) string {
	if s := m.session[id]; s != nil {
		return s.vhost.Name
	}
	return ""
}

// confirm reads the vhost's policy; an operator's keys come first.
func (v *vhost) confirm() Confirm {
	c := Confirm{Vhost: v.Name, MaxLag: defaultMaxLag, Degrade: none}
	own, operator := v.policyFor(v.Name, "vhost")
	get := func(key string) (any, bool) {
		if value, ok := operator.table().Get(key); ok {
			return value, true
		}
		return own.table().Get(key)
	}
	if value, ok := get(policyConfirm); ok {
		c.Mode, _ = confirmMode(value)
	}
	if value, ok := get(policyMaxLag); ok {
		c.MaxLag, _ = duration(value)
	}
	if value, ok := get(policyOnLoss); ok {
		c.Degrade, _ = onLoss(value)
	}
	return c
}

func confirmMode(value any) (ConfirmMode, bool) {
	for i, name := range confirmModes {
		if value == name {
			return ConfirmMode(i), true
		}
	}
	return ConfirmAsync, false
}

// duration reads "5s", "500ms", "2m", or a number of milliseconds.
func duration(value any) (millis int64, ok bool) {
	if n, isInt := message.Integer(value); isInt {
		return n, n > 0 && n <= expiryMax
	}
	s, _ := value.(string)
	digits := strings.TrimRight(s, "ms")
	n, err := strconv.ParseInt(digits, 10, 32)
	unit := map[string]int64{"ms": 1, "s": 1000, "m": 60_000}[s[len(digits):]]
	millis = n * unit
	return millis, err == nil && millis > 0 && millis <= expiryMax
}

// onLoss reads "block" (none) or "degrade(10s)".
func onLoss(value any) (degrade int64, ok bool) {
	s, _ := value.(string)
	if s == "block" {
		return none, true
	}
	inner, isDegrade := strings.CutPrefix(s, "degrade(")
	inner, closed := strings.CutSuffix(inner, ")")
	if !isDegrade || !closed {
		return none, false
	}
	if degrade, ok = duration(inner); !ok {
		return none, false
	}
	return degrade, true
}

// checkConfirm tells what is wrong with a policy's keys for the link.
func checkConfirm(t message.Table) error {
	for _, c := range []struct {
		key, want string
		good      func(any) bool
	}{
		{policyConfirm, "async, bounded or sync", func(v any) bool { _, ok := confirmMode(v); return ok }},
		{policyMaxLag, "a time such as 5s", func(v any) bool { _, ok := duration(v); return ok }},
		{policyOnLoss, "block, or degrade with a time such as degrade(10s)", func(v any) bool { _, ok := onLoss(v); return ok }},
	} {
		if value, ok := t.Get(c.key); ok && !c.good(value) {
			return fmt.Errorf("invalid '%s': %v is not %s", c.key, value, c.want)
		}
	}
	return nil
}

// regate follows a change of a policy: one that says what confirms wait for is met by the standby that catches up next.
func (m *Machine) regate(p *policy, cmd entry.Kind) {
	if _, ok := p.table().Get(policyConfirm); !ok || p.ApplyTo != "vhost" || m.replaying {
		return
	}
	l := &m.link
	l.Confirms, l.ConfirmsFor, l.ConfirmsWhy = entry.GateOff, "", ""
	m.linked(cmd, "")
}
