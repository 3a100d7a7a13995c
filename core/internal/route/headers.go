package route

import (
	"fmt"
	"strings"

	"github.com/understudy-mq/understudy/core/message"
)

// match is what a headers binding asks for.
type match struct {
	any    bool // one field is enough
	fields []message.Field
}

// parseMatch reads a binding's arguments. Fields whose key begins with "x-" count only for the kinds "-with-x", and
// x-match itself never does.
func parseMatch(args message.Table) (*match, error) {
	kind := "all"
	if v, ok := args.Get("x-match"); ok {
		if kind, ok = v.(string); !ok {
			return nil, fmt.Errorf("%w type (value %v); expected longstr", ErrMatch, v)
		}
	}
	base, withX := strings.CutSuffix(kind, "-with-x")
	if base != "all" && base != "any" {
		return nil, fmt.Errorf("%w value %q; expected all, any, all-with-x, or any-with-x", ErrMatch, kind)
	}
	m := &match{any: base == "any"}
	for _, f := range args {
		if f.Key != "x-match" && (withX || !strings.HasPrefix(f.Key, "x-")) {
			m.fields = append(m.fields, f)
		}
	}
	return m, nil
}

// holds says whether a message with headers h is one. With no fields to look at, all is true and any is false.
func (m *match) holds(h *headers) bool {
	for i := range m.fields {
		if h.has(&m.fields[i]) == m.any {
			return m.any
		}
	}
	return !m.any
}

// headers are a message's, read when first asked for.
type headers struct {
	read  func() message.Table
	table message.Table
	index map[string]any // of a long table, so that matching stays linear
}

// indexFrom is how many fields a table has from which on an index pays.
const indexFrom = 16

func (h *headers) open() {
	if h.read == nil {
		return
	}
	h.table = h.read()
	h.read = nil
	if len(h.table) < indexFrom {
		return
	}
	h.index = make(map[string]any, len(h.table))
	for _, f := range h.table {
		if _, double := h.index[f.Key]; !double {
			h.index[f.Key] = f.Value
		}
	}
}

// has says whether the headers have a binding's field; void asks only for the key.
func (h *headers) has(want *message.Field) bool {
	var value any
	var ok bool
	if h.index != nil {
		value, ok = h.index[want.Key]
	} else {
		value, ok = h.table.Get(want.Key)
	}
	return ok && (want.Value == nil || equal(value, want.Value))
}

// equal compares two field values as RabbitMQ (Erlang's =:=) does: whole numbers and timestamps by value whatever their
// width, floats likewise, longstr and byte arrays by their bytes, tables and arrays field by field in order. A whole number is
// never equal to a float.
func equal(a, b any) bool {
	switch x := a.(type) {
	case message.Table:
		y, ok := b.(message.Table)
		return ok && equalTables(x, y)
	case []any:
		y, ok := b.([]any)
		return ok && equalArrays(x, y)
	case []byte:
		return equalText(string(x), b)
	case string:
		return equalText(x, b)
	case float32:
		return equalFloat(float64(x), b)
	case float64:
		return equalFloat(x, b)
	case bool:
		y, ok := b.(bool)
		return ok && x == y
	case message.Decimal:
		y, ok := b.(message.Decimal)
		return ok && x == y
	case nil:
		return b == nil
	}
	x, xNegative, ok := whole(a)
	y, yNegative, both := whole(b)
	return ok && both && x == y && xNegative == yNegative
}

func equalTables(a, b message.Table) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Key != b[i].Key || !equal(a[i].Value, b[i].Value) {
			return false
		}
	}
	return true
}

func equalArrays(a, b []any) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

func equalText(a string, b any) bool {
	switch y := b.(type) {
	case string:
		return a == y
	case []byte:
		return a == string(y)
	}
	return false
}

func equalFloat(a float64, b any) bool {
	switch y := b.(type) {
	case float32:
		return a == float64(y)
	case float64:
		return a == y
	}
	return false
}

// whole answers the two's complement of a whole number and its sign: together they are the number, also of those above
// the range of int64.
func whole(v any) (bits uint64, negative, ok bool) {
	if t, isTime := v.(message.Timestamp); isTime {
		return uint64(t), false, true
	}
	n, ok := message.Integer(v)
	return uint64(n), n < 0, ok
}
