package wiretest

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
)

// Bounds of a line, in bytes.
const (
	bodyShown  = 40
	fieldsMost = 4000
)

// Show renders the fields of a method or command (a pointer to a struct) that are not zero.
func Show(x any) string {
	v := reflect.ValueOf(x).Elem()
	parts := append([]string{v.Type().Name()}, fields(v)...)
	return fmt.Sprintf("%.*s", fieldsMost, strings.Join(parts, " "))
}

func fields(v reflect.Value) (parts []string) {
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		switch {
		case f.Kind() == reflect.Struct:
			parts = append(parts, fields(f)...)
		case f.IsZero() || f.Kind() == reflect.Slice && f.Len() == 0:
		case f.Kind() == reflect.String || f.Kind() == reflect.Slice:
			parts = append(parts, fmt.Sprintf("%s=%q", name, f.Interface()))
		default:
			parts = append(parts, fmt.Sprintf("%s=%v", name, f.Interface()))
		}
	}
	return parts
}

// Octets renders a body, the beginning of a long one.
func Octets(b []byte) string {
	if len(b) > bodyShown {
		return fmt.Sprintf("%q and %d more", b[:8], len(b)-8)
	}
	return fmt.Sprintf("%q", b)
}

// Frame renders a frame: its channel, and the method, "header", "body" or "heartbeat".
func Frame(f *wire.Frame) string {
	switch f.Type {
	case wire.FrameMethod:
		id, args, _ := wire.SplitMethod(f.Payload)
		m := wire.New(id)
		if m == nil {
			return fmt.Sprintf("%d unknown method %d %q", f.Channel, id, args)
		}
		if err := m.Decode(args); err != nil {
			return fmt.Sprintf("%d %s: %v", f.Channel, id, err)
		}
		return fmt.Sprintf("%d %s", f.Channel, Show(m))
	case wire.FrameHeader:
		var h wire.ContentHeader
		if err := h.Decode(f.Payload); err != nil {
			return fmt.Sprintf("%d header: %v", f.Channel, err)
		}
		return fmt.Sprintf("%d header %d %q", f.Channel, h.BodySize, h.Properties)
	case wire.FrameBody:
		return fmt.Sprintf("%d body %s", f.Channel, Octets(f.Payload))
	}
	return fmt.Sprintf("%d heartbeat", f.Channel)
}

// Frames renders a stream of whole frames.
func Frames(b []byte) (lines []string) {
	for len(b) > 0 {
		var f wire.Frame
		n, err := wire.Parse(b, 1<<30, &f)
		if err != nil || n == 0 {
			return append(lines, fmt.Sprintf("%d octets that are no frame: %v", len(b), err))
		}
		lines = append(lines, Frame(&f))
		b = b[n:]
	}
	return lines
}
