package v091

import "sync"

// closes is why channels are being closed, for the answers that the machine will give: nil where the client asked for it.
type closes struct {
	mu       sync.Mutex
	expected map[uint16][]*fault
}

func (c *closes) expect(channel uint16, f *fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expected == nil {
		c.expected = map[uint16][]*fault{}
	}
	c.expected[channel] = append(c.expected[channel], f)
}

func (c *closes) take(channel uint16) (f *fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.expected[channel]
	if len(list) <= 1 {
		delete(c.expected, channel)
	} else {
		c.expected[channel] = list[1:]
	}
	if len(list) > 0 {
		f = list[0]
	}
	return f
}
