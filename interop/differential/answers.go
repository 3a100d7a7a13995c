package differential

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/understudy-mq/understudy/interop/rawclient"
)

// say notes a line.
func (s *side) say(key, format string, arguments ...any) {
	s.said[key] = append(s.said[key], s.plain(fmt.Sprintf(format, arguments...)))
}

// take takes what a broker says.
func (s *side) take(c *conn, e *rawclient.Event) error {
	if s.Distort != nil {
		s.Distort(e)
	}
	key := fmt.Sprintf("%d/%d", c.number, e.Channel)
	switch {
	case e.Name == "end" || e.Name == "connection.close":
		s.say(key, "%s", e)
		_ = c.Send(0, "connection.close-ok")
		return errors.Join(c.Close(), s.connect(c.number))
	case e.Channel >= probeChannel:
		return s.probed(c, e)
	case e.Channel == barrierChannel || e.Name == "channel.flow-ok":
		ch := c.channels[e.Channel]
		ch.awaiting = max(0, ch.awaiting-1)
		return nil
	}
	switch ch := c.channels[e.Channel]; e.Name {
	case "channel.open-ok", "channel.close", "channel.close-ok":
		return s.turned(c, key, e)
	case "basic.deliver":
		s.delivered(key, ch, e)
	case "basic.get-ok", "basic.get-empty", "basic.consume-ok":
		s.answered(key, ch, e)
	case "basic.ack", "basic.nack":
		s.confirmed(key, ch, e)
	case "basic.cancel":
		delete(ch.consumers, e.Text(0))
		s.say(key+" cancels", "%s", e)
	case "basic.return":
		s.say(key, "%s %s", e, content(e))
	case "queue.declare-ok":
		s.declared(e.Text(0))
		s.say(key, "%s", e)
	case "tx.commit-ok":
		ch.awaiting, ch.committing = ch.awaiting-1, false
		s.say(key, "%s", e)
	default:
		s.say(key, "%s", e)
	}
	return nil
}

// turned takes what opens or closes a channel.
func (s *side) turned(c *conn, key string, e *rawclient.Event) error {
	s.say(key, "%s", e)
	c.channels[e.Channel] = newChannel(e.Name == "channel.open-ok")
	if e.Name == "channel.close" {
		return c.Send(e.Channel, "channel.close-ok")
	}
	return nil
}

func (s *side) declared(queue string) {
	s.maybe[queue] = true
	if !slices.Contains(s.tidy, queue) {
		s.tidy = append(s.tidy, queue)
	}
	if given.MatchString(queue) {
		s.named = queue
	}
}

// probed takes an answer about a queue; the newest counts.
func (s *side) probed(c *conn, e *rawclient.Event) error {
	ch, name := c.channels[e.Channel], s.name(queueNames[e.Channel-probeChannel])
	key := fmt.Sprintf("%d of queue %s", c.number, s.plain(name))
	ch.awaiting--
	switch e.Name {
	case "channel.open-ok":
		return nil
	case "queue.declare-ok":
		s.said[key] = []string{fmt.Sprintf("%d messages, %d consumers", e.Number(1), e.Number(2))}
		return nil
	}
	s.said[key] = []string{fmt.Sprint(e.Number(0))}
	if e.Number(0) == 404 {
		delete(s.said, key)
		delete(s.maybe, name)
	}
	ch.awaiting++
	return c.Write(rawclient.AppendCall(rawclient.AppendCall(nil, e.Channel, "channel.close-ok"), e.Channel, "channel.open"))
}

// delivered notes a delivery with its queue's others, whose order is certain.
func (s *side) delivered(key string, ch *channel, e *rawclient.Event) {
	if !ch.open {
		return // it was closed meanwhile
	}
	from, ok := ch.consumers[e.Text(0)]
	if !ok {
		s.say(key, "for nobody: %s", e)
	}
	s.turns[key] = append(s.turns[key], from.queue)
	s.say(key+" from "+from.queue, "%s redelivered=%v %q %q %s%s", e.Text(0), e.Arguments[2], e.Text(3), e.Text(4), content(e), ch.counted(e.Number(1)))
	if !from.noAck {
		ch.held = append(ch.held, held{e.Number(1), from.queue + " " + string(e.Body)})
	}
}

// counted counts the deliveries of a channel.
func (c *channel) counted(tag uint64) (wrong string) {
	if tag != c.next {
		wrong = fmt.Sprintf(" TAG %d, not %d", tag, c.next)
	}
	c.next = tag + 1
	return wrong
}

// answered takes the answer to the oldest get or consume.
func (s *side) answered(key string, ch *channel, e *rawclient.Event) {
	if len(ch.asked) == 0 {
		s.say(key, "for no request: %s", e)
		return
	}
	what := ch.asked[0]
	ch.asked = ch.asked[1:]
	switch e.Name {
	case "basic.consume-ok":
		ch.consumers[e.Text(0)] = what
	case "basic.get-ok":
		s.say(key, "got redelivered=%v %q %q left=%d %s%s", e.Arguments[1], e.Text(2), e.Text(3), e.Number(4), content(e), ch.counted(e.Number(0)))
		if !what.noAck {
			ch.held = append(ch.held, held{e.Number(0), what.queue + " " + string(e.Body)})
		}
		return
	}
	s.say(key, "%s", e)
}

// confirmed takes confirms, each of the publishes apart.
func (s *side) confirmed(key string, ch *channel, e *rawclient.Event) {
	last, multiple := e.Number(0), e.Arguments[1] == true
	for n := uint64(1); n <= last; n++ {
		if n == last || multiple && !ch.confirmed[n] {
			s.say(key+" confirms", "%s %d", e.Name, n)
			ch.confirmed[n] = true
		}
	}
	slices.Sort(s.said[key+" confirms"])
}

// content is a message's properties and body, without times in what the broker writes and without what newer brokers write.
func content(e *rawclient.Event) string {
	p := e.Properties
	deaths, ok := p.Headers["x-death"].(list)
	if !ok {
		return fmt.Sprintf("%.40q %q", e.Body, p.Raw)
	}
	for _, d := range deaths {
		if d, ok := d.(table); ok && d["time"] != nil {
			d["time"] = "T"
		}
	}
	for _, k := range []string{"x-last-death-exchange", "x-last-death-queue", "x-last-death-reason"} {
		delete(p.Headers, k) // since RabbitMQ 3.13
	}
	priority := -1
	if p.Priority != nil {
		priority = int(*p.Priority)
	}
	p.Raw, p.Priority = nil, nil
	return fmt.Sprintf("%.40q %+v priority=%d", e.Body, p, priority)
}

// hangUp closes the channels, so that what they hold goes back.
func (s *side) hangUp() error {
	s.forget()
	for _, c := range s.conns {
		for n, ch := range c.channels {
			if ch.open && n < barrierChannel {
				ch.open = false
				if err := c.Send(n, "channel.close", 200); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// drainAll gets all that is left in the queues, and notes it.
func (s *side) drainAll() error {
	s.forget()
	for _, c := range s.conns {
		for i, q := range s.tidy {
			if err := s.drain(c, q, fmt.Sprintf("%d left in %d, %s", c.number, i, s.plain(q))); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *side) drain(c *conn, queue, key string) error {
	for {
		e, err := c.ask("basic.get", queue, true)
		switch {
		case err != nil || e.Name == "basic.get-empty":
			return err
		case e.Name == "channel.close":
			if e.Number(0) != 404 { // an auto-delete queue may take its time
				s.say(key, "%d", e.Number(0))
			}
			return c.reopen()
		case e.Name != "basic.get-ok":
			return fmt.Errorf("%s in answer to basic.get", e)
		}
		s.say(key, "redelivered=%v %q %q %s", e.Arguments[1], e.Text(2), e.Text(3), content(e))
	}
}

// clean deletes what the conversation declared.
func (s *side) clean() error {
	for _, q := range s.tidy {
		if err := s.conns[0].drop("queue.delete", q); err != nil {
			return err
		}
	}
	for _, x := range exchangeNames {
		if strings.Contains(x, markPlace) {
			if err := s.conns[0].drop("exchange.delete", s.name(x)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *conn) drop(method, name string) error {
	e, err := c.ask(method, name)
	if err == nil && e.Name == "channel.close" {
		err = c.reopen()
	}
	return err
}

// ask asks on the channel that is for it, and leaves out what comes on others.
func (c *conn) ask(method string, arguments ...any) (*rawclient.Event, error) {
	if err := c.Send(barrierChannel, method, arguments...); err != nil {
		return nil, err
	}
	for {
		e, err := c.Next()
		if err != nil || e.Channel == barrierChannel || e.Name == "end" {
			return e, err
		}
	}
}

func (c *conn) reopen() error {
	if err := c.Send(barrierChannel, "channel.close-ok"); err != nil {
		return err
	}
	_, err := c.ask("channel.open")
	return err
}
