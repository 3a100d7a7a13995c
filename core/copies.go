package core

import (
	"bytes"
	"fmt"
	"slices"
)

// The headers CC and BCC carry more routing keys (RabbitMQ's sender-selected distribution). The content stays as it is;
// whoever renders a delivery leaves BCC out.
var copyHeaders = [...]string{"CC", "BCC"}

// mayHaveCopies is a cheap look for the headers' names, so that messages without them are not decoded.
func mayHaveCopies(properties []byte) bool {
	return bytes.Contains(properties, []byte("\x02CC")) || bytes.Contains(properties, []byte("\x03BCC"))
}

// routeCopies adds to the routes of the publish at hand those of its further keys, each queue still once.
func (m *Machine) routeCopies(v *vhost) (Code, string) {
	table := m.recordHeaders()
	n := 0
	for _, name := range copyHeaders {
		value, ok := table.Get(name)
		if !ok {
			continue
		}
		keys, isArray := value.([]any)
		if !isArray {
			return CodePreconditionFailed, fmt.Sprintf("invalid message: header '%s' is a %s, not an array", name, typeName(value))
		}
		n += len(keys)
		if code, text := m.checkCopies(n); code != CodeOK {
			return code, text
		}
		for _, key := range keys {
			if text, ok := key.(string); ok {
				m.routes = v.router.Route(m.record.Exchange, []byte(text), m.headers, m.routes)
			}
		}
	}
	slices.Sort(m.routes)
	m.routes = slices.Compact(m.routes)
	return CodeOK, ""
}
