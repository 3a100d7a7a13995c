package core

import (
	"fmt"
	"slices"

	"github.com/understudy-mq/understudy/core/message"
)

// none is a limit or a time that is not set.
const none = -1

// expiryMax is the longest TTL, expiry or time-out that is accepted: ten years, as RabbitMQ has it, in milliseconds.
const expiryMax = 10 * 365 * 24 * 3600 * 1000

// priorityMax is the highest priority of a message, and the most that x-max-priority may say.
const priorityMax = 255

// overflow is what a queue does with a message that it has no room for.
type overflow uint8

const (
	dropHead overflow = iota
	rejectPublish
	rejectPublishDLX // and the refused message is dead-lettered
)

var overflowNames = []string{dropHead: "drop-head", rejectPublish: "reject-publish", rejectPublishDLX: "reject-publish-dlx"}

// settings is what a queue's arguments mean. Times are milliseconds.
type settings struct {
	quorum         bool
	ttl            int64 // of messages
	expires        int64 // of the queue while nobody uses it
	maxLength      int64 // ready messages
	maxBytes       int64 // of the ready messages' bodies
	overflow       overflow
	deadLetters    bool
	deadExchange   string
	hasDeadKey     bool
	deadKey        string
	deadNoLoss     bool // a queue that is full takes a dead letter all the same
	maxPriority    uint8
	singleActive   bool
	deliveryLimit  int64
	consumerExpiry int64 // of an unsettled delivery
	retry          retry
	retryMin       int64
	retryMax       int64
}

// retry is which deliveries that are given back return late.
type retry uint8

const (
	retryNone retry = iota
	retryAll
	retryFailed
	retryReturned
)

var retryNames = []string{retryNone: "disabled", retryAll: "all", retryFailed: "failed", retryReturned: "returned"}

// deliveryLimitQuorum is the delivery limit of a quorum queue that does not say another.
const deliveryLimitQuorum = 20

// settingsOf reads arguments that checkQueueArguments has passed.
func settingsOf(t message.Table) settings {
	number := func(key string) int64 {
		if value, ok := t.Get(key); ok {
			if n, isInt := message.Integer(value); isInt {
				return max(n, none)
			}
		}
		return none
	}
	s := settings{ttl: number("x-message-ttl"), expires: number("x-expires"), maxLength: number("x-max-length"),
		maxBytes: number("x-max-length-bytes"), deliveryLimit: number("x-delivery-limit"), consumerExpiry: number("x-consumer-timeout"),
		maxPriority: uint8(min(max(number("x-max-priority"), 0), priorityMax))}
	kind, _ := t.Get(argumentQueueType)
	s.quorum = kind == queueTypeQuorum
	if _, said := t.Get("x-delivery-limit"); s.quorum && !said {
		s.deliveryLimit = deliveryLimitQuorum
	}
	how, _ := t.Get("x-overflow")
	if text, ok := how.(string); ok {
		s.overflow = overflow(max(slices.Index(overflowNames, text), 0))
	}
	exchange, _ := t.Get("x-dead-letter-exchange")
	s.deadExchange, s.deadLetters = exchange.(string)
	key, _ := t.Get("x-dead-letter-routing-key")
	s.deadKey, s.hasDeadKey = key.(string)
	strategy, _ := t.Get("x-dead-letter-strategy")
	s.deadNoLoss = strategy == "at-least-once"
	which, _ := t.Get("x-delayed-retry-type")
	if text, ok := which.(string); ok {
		s.retry = retry(max(slices.Index(retryNames, text), 0))
	}
	s.retryMin, s.retryMax = max(number("x-delayed-retry-min"), 0), number("x-delayed-retry-max")
	single, _ := t.Get("x-single-active-consumer")
	s.singleActive = single == true
	return s
}

// argumentCheck judges the value of an argument; "" is good, anything else what RabbitMQ says is wrong.
type argumentCheck func(value any, t message.Table) string

// queueChecks are the arguments of a queue whose values are judged, in the order of judgement.
var queueChecks = []struct {
	key   string
	check argumentCheck
}{
	{"x-expires", checkExpires},
	{"x-message-ttl", checkTime},
	{"x-dead-letter-routing-key", checkDeadKey},
	{"x-dead-letter-strategy", oneOf("invalid_dlx_strategy", "at-most-once", "at-least-once")},
	{"x-max-length", checkNotNegative},
	{"x-max-length-bytes", checkNotNegative},
	{"x-max-in-memory-length", checkNotNegative},
	{"x-max-in-memory-bytes", checkNotNegative},
	{"x-max-priority", checkMaxPriority},
	{"x-overflow", oneOf("invalid_overflow", overflowNames...)},
	{"x-queue-mode", checkMode},
	{"x-queue-version", checkVersion},
	{"x-single-active-consumer", checkBool},
	{"x-quorum-initial-group-size", checkNotNegative},
	{"x-delivery-limit", checkInteger},
	{"x-consumer-timeout", checkExpires},
	{"x-delayed-retry-type", oneOf("invalid_delayed_retry_type", retryNames...)},
	{"x-delayed-retry-min", checkTime},
	{"x-delayed-retry-max", checkTime},
}

// checkQueueArguments refuses arguments of a new queue that are malformed, of the wrong type or out of range. Unknown
// ones are nobody's business.
func (v *vhost) checkQueueArguments(name string, arguments []byte) (Code, string) {
	t, err := message.ParseTable(arguments)
	if err != nil {
		return CodeSyntaxError, "malformed arguments: " + err.Error()
	}
	what := v.named("queue", name)
	if value, ok := t.Get("x-dead-letter-exchange"); ok {
		if _, isText := value.(string); !isText {
			return CodePreconditionFailed, fmt.Sprintf("invalid type '%s' for arg 'x-dead-letter-exchange' in %s", typeName(value), what)
		}
	}
	if code, text := v.checkQueueType(name, t); code != CodeOK {
		return code, text
	}
	for i := range queueChecks {
		x := &queueChecks[i]
		value, ok := t.Get(x.key)
		if !ok {
			continue
		}
		if wrong := x.check(value, t); wrong != "" {
			return CodePreconditionFailed, fmt.Sprintf("invalid arg '%s' for %s: %s", x.key, what, wrong)
		}
	}
	return CodeOK, ""
}

// checkQueueType accepts classic and quorum, which mean the same replicated queue here.
func (v *vhost) checkQueueType(name string, t message.Table) (Code, string) {
	value, ok := t.Get(argumentQueueType)
	if !ok || value == "classic" || value == queueTypeQuorum {
		return CodeOK, ""
	}
	wrong := unacceptable(value)
	if text, isText := value.(string); isText {
		wrong = unsupported("queue type", text)
	}
	return CodePreconditionFailed, fmt.Sprintf("invalid arg '%s' for %s: %s", argumentQueueType, v.named("queue", name), wrong)
}

func unsupported(what, value string) string {
	return fmt.Sprintf("\"unsupported %s '%s'\"", what, value)
}

func checkVersion(value any, t message.Table) string {
	if wrong := checkNotNegative(value, t); wrong != "" {
		return wrong
	}
	if n, _ := message.Integer(value); n != 1 && n != 2 {
		return unsupported("queue version", fmt.Sprint(n))
	}
	return ""
}

func checkMode(value any, _ message.Table) string {
	text, ok := value.(string)
	switch {
	case !ok:
		return unacceptable(value)
	case text != "default" && text != "lazy":
		return unsupported("queue mode", text)
	}
	return ""
}

func unacceptable(value any) string { return fmt.Sprintf("{unacceptable_type,%s}", typeName(value)) }

func checkInteger(value any, _ message.Table) string {
	if _, ok := message.Integer(value); !ok {
		return fmt.Sprintf("\"expected integer, got %s\"", typeName(value))
	}
	return ""
}

func checkNotNegative(value any, t message.Table) string {
	if wrong := checkInteger(value, t); wrong != "" {
		return wrong
	}
	if n, _ := message.Integer(value); n < 0 {
		return fmt.Sprintf("{value_negative,%d}", n)
	}
	return ""
}

func checkTime(value any, t message.Table) string {
	if wrong := checkNotNegative(value, t); wrong != "" {
		return wrong
	}
	if n, _ := message.Integer(value); n > expiryMax {
		return fmt.Sprintf("{value_too_large,%d}", n)
	}
	return ""
}

func checkExpires(value any, t message.Table) string {
	if n, ok := message.Integer(value); ok && n == 0 {
		return "{value_zero,0}"
	}
	return checkTime(value, t)
}

func checkMaxPriority(value any, t message.Table) string {
	if wrong := checkNotNegative(value, t); wrong != "" {
		return wrong
	}
	if n, _ := message.Integer(value); n > priorityMax {
		return fmt.Sprintf("{max_value_exceeded,%d}", n)
	}
	return ""
}

func checkBool(value any, _ message.Table) string {
	if _, ok := value.(bool); !ok {
		return unacceptable(value)
	}
	return ""
}

func checkDeadKey(value any, t message.Table) string {
	if _, ok := value.(string); !ok {
		return unacceptable(value)
	}
	if _, ok := t.Get("x-dead-letter-exchange"); !ok {
		return "routing_key_but_no_dlx_defined"
	}
	return ""
}

// Arguments of basic.consume.
const (
	argumentPriority = "x-priority"
	argumentTimeout  = "x-consumer-timeout"
)

// checkConsumer refuses arguments of a new consumer.
func checkConsumer(q *queue, arguments []byte) (Code, string) {
	t, err := message.ParseTable(arguments)
	if err != nil {
		return CodeSyntaxError, "malformed arguments: " + err.Error()
	}
	for _, x := range [...]struct {
		key   string
		check argumentCheck
	}{{argumentPriority, checkInteger}, {argumentTimeout, checkExpires}} {
		if value, ok := t.Get(x.key); ok {
			if wrong := x.check(value, t); wrong != "" {
				return CodePreconditionFailed, fmt.Sprintf("invalid arg '%s' for %s: %s", x.key, q.vhost.named("queue", q.Name), wrong)
			}
		}
	}
	return CodeOK, ""
}

// argumentInteger is an integer among arguments; false if there is none.
func argumentInteger(arguments []byte, key string) (int64, bool) {
	if len(arguments) == 0 {
		return 0, false
	}
	t, _ := message.ParseTable(arguments)
	value, _ := t.Get(key)
	return message.Integer(value)
}

// oneOf accepts some texts only.
func oneOf(wrong string, texts ...string) argumentCheck {
	return func(value any, _ message.Table) string {
		text, ok := value.(string)
		switch {
		case !ok:
			return unacceptable(value)
		case !slices.Contains(texts, text):
			return wrong
		}
		return ""
	}
}
