package core

import (
	"errors"
	"fmt"

	"github.com/understudy-mq/understudy/core/message"
)

// Destinations names the queues that a message would enter if it was published in vhost now, none where it routes nowhere.
// It is for whoever studies a state that no node serves. Errors: no such vhost, or a record that a publish would be refused
// for.
func (m *Machine) Destinations(vhost string, record []byte) ([]string, error) {
	v := m.vhost[vhost]
	if v == nil {
		return nil, fmt.Errorf("no vhost %q in group %d", vhost, m.group)
	}
	if err := message.ParseRecord(record, &m.record); err != nil {
		return nil, err
	}
	if code, text := m.route(v); code != CodeOK {
		return nil, errors.New(text)
	}
	names := make([]string, len(m.routes))
	for i, id := range m.routes {
		names[i] = v.queueByID(id).Name
	}
	return names, nil
}
