package differential

import (
	"fmt"
	"strings"

	"github.com/understudy-mq/understudy/interop/rawclient"
)

type (
	table = rawclient.Table
	list  = []any
)

// Names hold places for what tells conversations apart and for the name that the broker gave last.
const (
	markPlace  = "<mark>"
	namedPlace = "<named>"
)

// tagOf stands for the delivery tag of one of the channel's unsettled deliveries, counted in the order of queue and body.
type tagOf int

// step is a method, with what of a message goes with it.
type step struct {
	method     string
	arguments  list
	properties rawclient.Properties
	body       string
}

func (s step) String() string {
	var b strings.Builder
	b.WriteString(s.method)
	for _, a := range s.arguments {
		if t, ok := a.(tagOf); ok {
			a = fmt.Sprintf("tagOf(%d)", t)
		}
		fmt.Fprintf(&b, " %#v", a)
	}
	if s.method == "basic.publish" {
		p := s.properties
		fmt.Fprintf(&b, " %q headers=%v expiration=%q user=%q", s.body, p.Headers, p.Expiration, p.UserID)
	}
	return b.String()
}

// move is steps on a channel that are sent together.
type move struct {
	conn    int
	channel uint16
	steps   []step
}

func (m move) String() string {
	lines := make([]string, len(m.steps))
	for i, s := range m.steps {
		lines[i] = fmt.Sprintf("%d/%d %s", m.conn, m.channel, s)
	}
	return strings.Join(lines, "\n")
}
