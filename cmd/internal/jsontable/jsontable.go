package jsontable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/understudy-mq/understudy/core/message"
)

// Decode renders a field table for JSON; empty for none. The machine holds only tables that it could read.
func Decode(b []byte) map[string]any {
	t, err := message.ParseTable(b)
	if err != nil {
		return map[string]any{}
	}
	return plainTable(t)
}

func plainTable(t message.Table) map[string]any {
	out := make(map[string]any, len(t))
	for _, f := range t {
		out[f.Key] = plain(f.Value)
	}
	return out
}

// plain makes a table's value one that JSON has.
func plain(v any) any {
	switch v := v.(type) {
	case message.Table:
		return plainTable(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	case message.Timestamp:
		return time.Unix(int64(v), 0).UTC().Format(time.RFC3339)
	case message.Decimal:
		return float64(v.Value) / math.Pow10(int(v.Scale))
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Sprint(v)
		}
	case float32:
		return plain(float64(v))
	}
	return v
}

// DecodeRaw is Decode with each value as the JSON that Encode reads.
func DecodeRaw(b []byte) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for key, v := range Decode(b) {
		text, err := json.Marshal(v)
		if err != nil {
			continue // plain leaves nothing that JSON has not
		}
		out[key] = text
	}
	return out
}

// Encode makes a field table of a JSON object, its keys in order: whole numbers become 64-bit integers, others doubles.
// Errors name the key that no table holds, or the limit that is exceeded.
func Encode(object map[string]json.RawMessage) ([]byte, error) {
	values := make(map[string]any, len(object))
	for key, raw := range object {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("'%s': %w", key, err)
		}
		values[key] = v
	}
	t, err := tableFrom(values, 1)
	if err != nil {
		return nil, err
	}
	b := message.AppendTable(nil, t)
	return b, message.Check(b)
}

func tableFrom(object map[string]any, depth int) (message.Table, error) {
	if depth > message.TableDepthMax {
		return nil, fmt.Errorf("more than %d levels", message.TableDepthMax)
	}
	t := make(message.Table, 0, len(object))
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if len(key) > math.MaxUint8 {
			return nil, fmt.Errorf("a key has %d bytes, at most %d are allowed", len(key), math.MaxUint8)
		}
		v, err := fieldFrom(object[key], depth)
		if err != nil {
			return nil, fmt.Errorf("'%s': %w", key, err)
		}
		t = append(t, message.Field{Key: key, Value: v})
	}
	return t, nil
}

func fieldFrom(v any, depth int) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		return tableFrom(v, depth+1)
	case []any:
		if depth >= message.TableDepthMax {
			return nil, fmt.Errorf("more than %d levels", message.TableDepthMax)
		}
		list := make([]any, len(v))
		for i := range v {
			var err error
			if list[i], err = fieldFrom(v[i], depth+1); err != nil {
				return nil, err
			}
		}
		return list, nil
	case json.Number:
		return numberFrom(v.String())
	}
	return v, nil // string, bool or nil
}

func numberFrom(text string) (any, error) {
	if !strings.ContainsAny(text, ".eE") {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, errors.New("a whole number must fit 64 bits")
		}
		return n, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("%s is no number that a double holds", text)
	}
	return f, nil
}
