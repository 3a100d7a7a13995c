package core

import (
	"bytes"
	"fmt"
)

// The headers CC and BCC carry more routing keys (RabbitMQ's sender-selected distribution). The content stays as it is;
// whoever renders a delivery leaves BCC out.
var copyHeaders = [...]string{"CC", "BCC"}

// mayHaveCopies is a cheap look for the headers' names, so that messages without them are not decoded.
func mayHaveCopies(properties []byte) bool {
	return bytes.Contains(properties, []byte("\x02CC")) || bytes.Contains(properties, []byte("\x03BCC"))
}

// routeCopies finds the routes of the publish at hand by all its keys.
func (m *Machine) routeCopies(v *vhost) (Code, string) {
	table := m.recordHeaders()
	keys, n := [][]byte{m.record.RoutingKey}, 0
	for _, name := range copyHeaders {
		value, ok := table.Get(name)
		if !ok {
			continue
		}
		more, isArray := value.([]any)
		if !isArray {
			return CodePreconditionFailed, fmt.Sprintf("invalid message: header '%s' is a %s, not an array", name, typeName(value))
		}
		n += len(more)
		if code, text := m.checkCopies(n); code != CodeOK {
			return code, text
		}
		for _, key := range more {
			if text, ok := key.(string); ok {
				keys = append(keys, []byte(text))
			}
		}
	}
	m.routes = v.router.RouteAll(m.record.Exchange, keys, m.headers, m.routes[:0])
	return CodeOK, ""
}
