package core

import (
	"regexp"

	"github.com/understudy-mq/understudy/core/message"
)

// Session policies are policies that apply to connections: they give sessions to clients that ask for none, and terms to
// those that do. The pattern is over the connection's name (or an AMQP 1.0 client's container-id).

// SessionPolicy is what a vhost's policies say for one connection. The zero value says nothing.
type SessionPolicy struct {
	Policy   string   // name of the one that counts, "" for none
	Session  string   // what names the session of a client that names none: "connection-name" or "client-id"; "" for nothing
	Expiry   int64    // seconds, -1 where it says nothing
	Dedup    string   // "off", "header", "message-id" or ""
	InFlight string   // "redeliver", "keep" or ""
	Headers  []string // that carry a dedup id, beside the broker's own
}

// The keys of a session policy. KeyUser narrows it to users whose name matches its pattern.
const (
	keySession      = "session"
	keyUser         = "session-user"
	keyExpiry       = "session-expiry"
	keyDedup        = "session-dedup"
	keyDedupHeaders = "session-dedup-headers"
	keyInFlight     = "session-inflight"
)

var sessionPolicyChecks = []struct {
	key   string
	check argumentCheck
}{
	{keySession, oneOf("invalid_session", "connection-name", "client-id")},
	{keyUser, checkPattern},
	{keyExpiry, checkNotNegative},
	{keyDedup, oneOf("invalid_session_dedup", "off", "header", "message-id")},
	{keyDedupHeaders, checkTexts},
	{keyInFlight, oneOf("invalid_session_inflight", "redeliver", "keep")},
}

func checkPattern(value any, t message.Table) string {
	text, ok := value.(string)
	if !ok {
		return unacceptable(value)
	}
	if _, err := regexp.Compile(text); err != nil {
		return err.Error()
	}
	return ""
}

// checkTexts takes a text, or a list of them.
func checkTexts(value any, t message.Table) string {
	list, isList := value.([]any)
	if !isList {
		return checkText(value, t)
	}
	for _, x := range list {
		if wrong := checkText(x, t); wrong != "" {
			return wrong
		}
	}
	return ""
}

// SessionPolicy finds the policy for a connection of a user's: of those that match both the one with the highest priority,
// an operator policy before all others.
func (m *Machine) SessionPolicy(vhost, user, connection string) SessionPolicy {
	v := m.vhost[vhost]
	if v == nil {
		return SessionPolicy{Expiry: none}
	}
	var best *policy
	for _, p := range v.policies {
		if p.ApplyTo != "connections" || !p.pattern.MatchString(connection) || !p.forUser(user) {
			continue
		}
		if best == nil || p.Operator && !best.Operator || p.Operator == best.Operator && p.Priority > best.Priority {
			best = p
		}
	}
	if best == nil {
		return SessionPolicy{Expiry: none}
	}
	t := best.definition
	x := SessionPolicy{Policy: best.Name, Session: text(t, keySession), Expiry: none, Dedup: text(t, keyDedup),
		InFlight: text(t, keyInFlight), Headers: texts(t, keyDedupHeaders)}
	if value, ok := t.Get(keyExpiry); ok {
		x.Expiry, _ = message.Integer(value)
	}
	if one := text(t, keyDedupHeaders); one != "" {
		x.Headers = []string{one}
	}
	return x
}

// forUser says whether a policy counts for a user. The pattern was checked when the policy was set.
func (p *policy) forUser(user string) bool {
	value, ok := p.definition.Get(keyUser)
	if !ok {
		return true
	}
	pattern, _ := value.(string)
	matched, err := regexp.MatchString(pattern, user)
	return err == nil && matched
}
