package core

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"

	"github.com/understudy-mq/understudy/core/entry"
	ready "github.com/understudy-mq/understudy/core/internal/queue"
	"github.com/understudy-mq/understudy/core/message"
)

// A policy gives arguments to the queues and exchanges whose name its pattern matches. Of a vhost's policies the one with
// the highest priority counts for each, and beside it one operator policy. Both are looked for anew whenever a policy
// changes, so what a queue does is a function of its own arguments and the vhost's policies.

// Bounds of a policy, in bytes.
const (
	policyPatternMax    = 1024
	policyDefinitionMax = 64 << 10
)

type policyRow struct {
	Vhost      uint32
	Operator   bool
	Name       string
	Pattern    string
	ApplyTo    string
	Priority   int64
	Definition []byte
}

type policy struct {
	meta
	policyRow
	pattern    *regexp.Regexp
	definition message.Table
}

func (p *policy) key(dst []byte) []byte {
	kind := uint64(0)
	if p.Operator {
		kind = 1
	}
	return append(keyOf(dst, tablePolicy, uint64(p.Vhost), kind), p.Name...)
}

func (p *policyRow) code(c *rowCoder) {
	c.u32(&p.Vhost)
	c.boolean(&p.Operator)
	c.str(&p.Name)
	c.str(&p.Pattern)
	c.str(&p.ApplyTo)
	c.i64(&p.Priority)
	c.bytes(&p.Definition)
}

// policyChecks are the keys of a definition that count here, and the argument that each stands for. What stands for none
// is kept and not looked at.
var policyChecks = []struct {
	key, argument string
	check         argumentCheck
}{
	{"message-ttl", "x-message-ttl", checkTime},
	{"expires", "x-expires", checkExpires},
	{"max-length", "x-max-length", checkNotNegative},
	{"max-length-bytes", "x-max-length-bytes", checkNotNegative},
	{"overflow", "x-overflow", oneOf("invalid_overflow", overflowNames...)},
	{"dead-letter-exchange", "x-dead-letter-exchange", checkText},
	{"dead-letter-routing-key", "x-dead-letter-routing-key", checkText},
	{"delivery-limit", "x-delivery-limit", checkInteger},
	{"consumer-timeout", "x-consumer-timeout", checkExpires},
	{"alternate-exchange", argumentAlternate, checkText},
}

func checkText(value any, _ message.Table) string {
	if _, ok := value.(string); !ok {
		return unacceptable(value)
	}
	return ""
}

// policyTargets are what a policy may apply to. Those for connections and the vhost, and for streams, are kept for whoever
// reads them: they match no queue and no exchange.
var policyTargets = []string{"all", "queues", "classic_queues", "quorum_queues", "exchanges", "streams", "connections", "vhost"}

// CheckPolicy tells what is wrong with a policy, nil for nothing.
func CheckPolicy(x *entry.PolicySet) error {
	_, err := newPolicy(0, x)
	return err
}

func newPolicy(vhost uint32, x *entry.PolicySet) (*policy, error) {
	switch {
	case x.Name == "" || len(x.Name) > 255:
		return nil, fmt.Errorf("a policy needs a name of at most 255 bytes")
	case len(x.Pattern) > policyPatternMax:
		return nil, fmt.Errorf("pattern of policy '%s' has %d bytes, at most %d are allowed", x.Name, len(x.Pattern), policyPatternMax)
	case len(x.Definition) > policyDefinitionMax:
		return nil, fmt.Errorf("definition of policy '%s' has %d bytes, at most %d are allowed", x.Name, len(x.Definition), policyDefinitionMax)
	case !slices.Contains(policyTargets, x.ApplyTo):
		return nil, fmt.Errorf("policy '%s' applies to '%s', which is none of %v", x.Name, x.ApplyTo, policyTargets)
	}
	p := &policy{policyRow: policyRow{Vhost: vhost, Operator: x.Operator, Name: x.Name, Pattern: x.Pattern, ApplyTo: x.ApplyTo,
		Priority: x.Priority, Definition: clone(x.Definition)}}
	if err := p.read(); err != nil {
		return nil, err
	}
	if err := checkConfirm(p.definition); err != nil {
		return nil, fmt.Errorf("definition of policy '%s': %w", p.Name, err)
	}
	check := func(key string, check argumentCheck) error {
		if value, ok := p.definition.Get(key); ok {
			if wrong := check(value, p.definition); wrong != "" {
				return fmt.Errorf("definition of policy '%s': invalid '%s': %s", x.Name, key, wrong)
			}
		}
		return nil
	}
	for i := range policyChecks {
		if err := check(policyChecks[i].key, policyChecks[i].check); err != nil {
			return nil, err
		}
	}
	for i := range sessionPolicyChecks {
		if err := check(sessionPolicyChecks[i].key, sessionPolicyChecks[i].check); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// read makes what is derived from the row.
func (p *policy) read() (err error) {
	if p.pattern, err = regexp.Compile(p.Pattern); err != nil {
		return fmt.Errorf("pattern of policy '%s': %w", p.Name, err)
	}
	if p.definition, err = message.ParseTable(p.Definition); err != nil {
		return fmt.Errorf("definition of policy '%s': %w", p.Name, err)
	}
	return nil
}

func (v *vhost) searchPolicy(name string, operator bool) (int, bool) {
	return slices.BinarySearchFunc(v.policies, name, func(p *policy, name string) int {
		if p.Operator != operator {
			if operator {
				return -1
			}
			return 1
		}
		return cmp.Compare(p.Name, name)
	})
}

func (m *Machine) applyPolicySet(x *entry.PolicySet) {
	v := m.vhost[x.Vhost]
	if v == nil {
		return
	}
	p, err := newPolicy(v.Vhost, x)
	if err != nil {
		return
	}
	at, there := v.searchPolicy(x.Name, x.Operator)
	if there {
		old := v.policies[at]
		m.regate(old, x.Kind())
		old.policyRow, old.pattern, old.definition = p.policyRow, p.pattern, p.definition
		p = old
	} else {
		v.policies = slices.Insert(v.policies, at, p)
	}
	m.touch(p)
	m.regate(p, x.Kind())
	m.applyPolicies(v)
}

func (m *Machine) applyPolicyDelete(x *entry.PolicyDelete) {
	v := m.vhost[x.Vhost]
	if v == nil {
		return
	}
	at, there := v.searchPolicy(x.Name, x.Operator)
	if !there {
		return
	}
	p := v.policies[at]
	v.policies = slices.Delete(v.policies, at, at+1)
	p.gone = true
	m.touch(p)
	m.regate(p, x.Kind())
	m.applyPolicies(v)
}

// applyPolicies finds the policies of everything in a vhost anew, and has queues do at once what new limits ask for.
func (m *Machine) applyPolicies(v *vhost) {
	patience := int64(consumerTimeout)
	for _, q := range v.queues {
		if v.configure(q) {
			if q.Unacked > 0 && q.set.consumerExpiry != none {
				patience = min(patience, q.set.consumerExpiry)
			}
			m.use(q)
			m.touch(q)
			m.await(q)
		}
	}
	for _, x := range v.exchanges {
		v.configureExchange(x)
	}
	if patience < consumerTimeout {
		m.lookAgain(v, patience)
	}
}

// policyFor answers the policy and the operator policy of a thing, either may be nil.
func (v *vhost) policyFor(name string, targets ...string) (own, operator *policy) {
	for _, p := range v.policies {
		best := &own
		if p.Operator {
			best = &operator
		}
		if (*best == nil || p.Priority > (*best).Priority) && slices.Contains(targets, p.ApplyTo) && p.pattern.MatchString(name) {
			*best = p
		}
	}
	return own, operator
}

// definitionFor is what a policy and an operator policy say together, by the arguments that their keys stand for.
func definitionFor(own, operator *policy) message.Table {
	merged := MergeDefinitions(own.table(), operator.table())
	var t message.Table
	for i := range policyChecks {
		c := &policyChecks[i]
		if value, ok := merged.Get(c.key); ok {
			t = append(t, message.Field{Key: c.argument, Value: value})
		}
	}
	return t
}

// MergeDefinitions merges the definitions of a policy and an operator policy: of numbers the smaller counts, of all else the
// operator's. The result may share memory with own.
func MergeDefinitions(own, operator message.Table) message.Table {
	if len(operator) == 0 {
		return own
	}
	t := slices.Clone(own)
	for _, f := range operator {
		if value, ok := own.Get(f.Key); !ok || !smaller(value, f.Value) {
			t = set(t, f.Key, f.Value)
		}
	}
	return t
}

func (p *policy) table() message.Table {
	if p == nil {
		return nil
	}
	return p.definition
}

func smaller(a, b any) bool {
	x, xIsInt := message.Integer(a)
	y, yIsInt := message.Integer(b)
	return xIsInt && yIsInt && x < y
}

// withPolicy merges a queue's or exchange's own arguments with what its policies say: of numbers the smaller counts, of all
// else the own.
func withPolicy(own, definition message.Table) message.Table {
	if len(definition) == 0 {
		return own
	}
	t := slices.Clone(own)
	for _, f := range definition {
		if value, ok := own.Get(f.Key); !ok || smaller(f.Value, value) {
			t = set(t, f.Key, f.Value)
		}
	}
	return t
}

// configure makes a queue's settings of its arguments and policies; it says whether they changed.
func (v *vhost) configure(q *queue) bool {
	args, _ := message.ParseTable(q.Arguments) // they parsed when the queue was declared
	kind := "classic_queues"
	if value, _ := args.Get(argumentQueueType); value == queueTypeQuorum {
		kind = "quorum_queues"
	}
	q.policy, q.operator = v.policyFor(q.Name, "all", "queues", kind)
	s := settingsOf(withPolicy(args, definitionFor(q.policy, q.operator)))
	if q.configured && s == q.set {
		return false
	}
	if q.configured {
		v.countQueue(q, -1)
	}
	q.set, q.configured = s, true
	limited := s.maxLength != none || s.maxBytes != none
	q.trims = limited && s.overflow == dropHead
	q.counts = s.quorum || s.deliveryLimit != none
	q.plain = s.ttl == none && s.expires == none && !limited && s.maxPriority == 0
	q.bodies = 0
	if s.maxBytes != none {
		q.ready.each(func(r ready.Ref) { q.bodies += q.bodyOf(&r) })
	}
	v.countQueue(q, 1)
	return true
}

// configureExchange tells the router what an exchange's arguments and policies say.
func (v *vhost) configureExchange(x *exchange) {
	if len(x.Arguments) == 0 && len(v.policies) == 0 && !x.configured {
		return
	}
	x.configured = true
	args, _ := message.ParseTable(x.Arguments) // they parsed when the exchange was declared
	x.policy, x.operator = v.policyFor(x.Name, "all", "exchanges")
	t := withPolicy(args, definitionFor(x.policy, x.operator))
	v.router.Configure(x.Name, text(t, argumentAlternate), text(t, argumentHashHeader))
}

// nameOf is a policy's name, for listings.
func (p *policy) nameOf() string {
	if p == nil {
		return ""
	}
	return p.Name
}
