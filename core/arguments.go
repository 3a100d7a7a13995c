package core

import (
	"fmt"
	"math"
	"strconv"

	"github.com/understudy-mq/understudy/core/message"
)

// The arguments that count when something is declared again; others are stored and not compared.
var (
	exchangeArguments = []string{"alternate-exchange", "x-delayed-type"}
	queueArguments    = []string{"x-expires", "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key",
		"x-dead-letter-strategy", "x-max-length", "x-max-length-bytes", "x-max-priority", "x-overflow",
		"x-queue-mode", "x-queue-version", "x-single-active-consumer", "x-delivery-limit", "x-queue-type", "x-consumer-timeout",
		"x-delayed-retry-type", "x-delayed-retry-min", "x-delayed-retry-max"}
)

const argumentQueueType = "x-queue-type"

const queueTypeQuorum = "quorum"

// compareArguments says what of the arguments named in keys differs between a declared thing and its new declare.
func compareArguments(what string, current, received []byte, keys []string) (Code, string) {
	if len(current) == 0 && len(received) == 0 {
		return CodeOK, ""
	}
	old, _ := message.ParseTable(current)
	wanted, err := message.ParseTable(received)
	if err != nil {
		return CodeSyntaxError, "malformed arguments: " + err.Error()
	}
	for _, key := range keys {
		a, aThere := argument(old, key)
		b, bThere := argument(wanted, key)
		if aThere == bThere && (!aThere || sameValue(a, b)) {
			continue
		}
		got, have := fmt.Sprintf("'%v'", printed(b)), fmt.Sprintf("'%v'", printed(a))
		if !aThere || !bThere || !sameClass(a, b) {
			got, have = typed(b, bThere), typed(a, aThere)
		}
		return CodePreconditionFailed, fmt.Sprintf("inequivalent arg '%s' for %s: received %s but current is %s", key, what, got, have)
	}
	return CodeOK, ""
}

// argument looks a value up; a queue without a type is a classic one.
func argument(t message.Table, key string) (any, bool) {
	value, ok := t.Get(key)
	if !ok && key == argumentQueueType {
		return "classic", true
	}
	return value, ok
}

func typed(value any, there bool) string {
	if !there {
		return "none"
	}
	return fmt.Sprintf("the value '%v' of type '%s'", printed(value), typeName(value))
}

func printed(value any) any {
	switch x := value.(type) {
	case nil:
		return "undefined"
	case []byte:
		return string(x)
	case float32:
		return printed(float64(x))
	case float64:
		if x == math.Trunc(x) && math.Abs(x) < 1e15 {
			return strconv.FormatFloat(x, 'f', 1, 64) // 10.0, as RabbitMQ prints it
		}
	}
	return value
}

// sameValue compares as RabbitMQ does: integers of any width by value, everything else by its bytes.
func sameValue(a, b any) bool {
	x, xIsInt := message.Integer(a)
	y, yIsInt := message.Integer(b)
	if xIsInt || yIsInt {
		return xIsInt && yIsInt && x == y
	}
	return string(message.AppendTable(nil, message.Table{{Value: a}})) == string(message.AppendTable(nil, message.Table{{Value: b}}))
}

// sameClass says whether values are of one kind, integers of any width being one.
func sameClass(a, b any) bool {
	_, x := message.Integer(a)
	_, y := message.Integer(b)
	return x && y || typeName(a) == typeName(b)
}

// typeName is RabbitMQ's name for a field's type.
func typeName(value any) string {
	switch value.(type) {
	case bool:
		return "bool"
	case int8:
		return "byte"
	case uint8:
		return "unsignedbyte"
	case int16:
		return "short"
	case uint16:
		return "unsignedshort"
	case int32:
		return "signedint"
	case uint32:
		return "unsignedint"
	case int64, uint64:
		return "long"
	case float32:
		return "float"
	case float64:
		return "double"
	case message.Decimal:
		return "decimal"
	case string:
		return "longstr"
	case message.Timestamp:
		return "timestamp"
	case []byte:
		return "binary"
	case []any:
		return "array"
	case message.Table:
		return "table"
	}
	return "void"
}
