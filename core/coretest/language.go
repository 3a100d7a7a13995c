package coretest

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/understudy-mq/understudy/core/message"
)

// The language of scripts: one command a line, as in
//
//	node-up node=1 nonce=7
//	attach vhost=/ connection=c1 on=1
//	s1.1 publish exchange=amq.topic key=a.b body=hello mandatory
//	s1.1 ack 3 multiple
//
// Words without = are flags; s1.1 is channel 1 of session 1, s1 the session itself.

// line is a parsed command line.
type line struct {
	verb    string
	session uint64
	channel uint16
	words   []string          // without =
	values  map[string]string // with =
	args    [][2]string       // of these, the names that begin with arg:
}

func parseLine(text string) (line, error) {
	l := line{values: map[string]string{}}
	fields := strings.Fields(text)
	if len(fields) > 1 && fields[0][0] == 's' && len(fields[0]) > 1 && fields[0][1] >= '0' && fields[0][1] <= '9' {
		id, channel, _ := strings.Cut(fields[0][1:], ".")
		s, err := strconv.ParseUint(id, 10, 64)
		if err != nil {
			return l, fmt.Errorf("%q: %w", text, err)
		}
		h, _ := strconv.ParseUint(channel, 10, 16)
		l.session, l.channel = s, uint16(h)
		fields = fields[1:]
	}
	if len(fields) == 0 {
		return l, fmt.Errorf("%q: no command", text)
	}
	l.verb = fields[0]
	for _, f := range fields[1:] {
		if key, value, ok := strings.Cut(f, "="); ok {
			value = strings.NewReplacer(`\r`, "\r", `\n`, "\n", `\_`, " ").Replace(value)
			l.values[key] = value
			if name, ok := strings.CutPrefix(key, "arg:"); ok {
				l.args = append(l.args, [2]string{name, value})
			}
		} else {
			l.words = append(l.words, f)
		}
	}
	return l, nil
}

func (l *line) flag(name string) bool {
	for _, w := range l.words {
		if w == name {
			return true
		}
	}
	return false
}

func (l *line) number(name string) uint64 {
	n, _ := strconv.ParseUint(l.values[name], 10, 64)
	return n
}

func (l *line) signed(name string) int64 {
	n, _ := strconv.ParseInt(l.values[name], 10, 64)
	return n
}

// tag is the number among the words.
func (l *line) tag() uint64 {
	for _, w := range l.words {
		if n, err := strconv.ParseUint(w, 10, 64); err == nil {
			return n
		}
	}
	return 0
}

// arguments makes a table of the values named arg:NAME. A value i32:5, i64:5, i64max:, f64:5, list:a,b or bool:true has that
// type; all others are longstr.
func (l *line) arguments() []byte {
	var t message.Table
	for _, a := range l.args {
		t = append(t, message.Field{Key: a[0], Value: typedValue(a[1])})
	}
	if t == nil {
		return nil
	}
	return message.AppendTable(nil, t)
}

func typedValue(text string) any {
	kind, value, ok := strings.Cut(text, ":")
	if !ok {
		return text
	}
	n, _ := strconv.ParseInt(value, 10, 64)
	switch kind {
	case "i8":
		return int8(n)
	case "i16":
		return int16(n)
	case "i32":
		return int32(n)
	case "i64":
		return n
	case "i64max":
		return int64(math.MaxInt64)
	case "f64":
		f, _ := strconv.ParseFloat(value, 64)
		return f
	case "list":
		var list []any
		for _, x := range strings.Split(value, ",") {
			list = append(list, x)
		}
		return list
	case "bool":
		return value == "true"
	}
	return text
}
