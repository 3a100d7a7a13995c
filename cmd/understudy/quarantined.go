package main

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/core/message"
)

// lostPrefix begins the headers of a message in quarantine that are not its own.
const lostPrefix = "x-lost-"

// acting are the headers that a broker acts on whatever the exchange.
var acting = map[string]bool{"CC": true, "BCC": true, "x-dedup-id": true, "x-pub-name": true, "x-pub-seq": true}

// publishing is the message as it goes into quarantine: what it was, and where it comes from.
func (p *lostPublish) publishing() (amqp.Publishing, error) {
	props, err := message.ParseProperties(p.Properties)
	if err != nil {
		return amqp.Publishing{}, err
	}
	headers, err := message.ParseTable(props.Headers)
	if err != nil {
		return amqp.Publishing{}, err
	}
	m := amqp.Publishing{
		Headers: amqp.Table{}, ContentType: props.ContentType, ContentEncoding: props.ContentEncoding,
		DeliveryMode: props.DeliveryMode, Priority: props.Priority, CorrelationId: props.CorrelationID, ReplyTo: props.ReplyTo,
		MessageId: props.MessageID, Type: props.Type, AppId: props.AppID, Body: p.Body,
	}
	if props.Has(message.PropTimestamp) {
		m.Timestamp = time.Unix(int64(props.Timestamp), 0)
	}
	for _, h := range headers {
		key := h.Key
		if acting[key] {
			key = lostPrefix + key
		}
		m.Headers[key] = headerOf(h.Value)
	}
	for name, value := range map[string]string{"expiration": props.Expiration, "user-id": props.UserID, "cluster-id": props.ClusterID} {
		if value != "" {
			m.Headers[lostPrefix+name] = value
		}
	}
	m.Headers[lostPrefix+"vhost"] = p.vhost
	m.Headers[lostPrefix+"exchange"] = string(p.Exchange)
	m.Headers[lostPrefix+"routing-key"] = string(p.RoutingKey)
	m.Headers[lostPrefix+"entry"] = p.entry()
	return m, nil
}

// entry names the message's place in the former source's log.
func (p *lostPublish) entry() string { return fmt.Sprintf("%d/%d/%d", p.group, p.index, p.place) }

// headerOf is a table's value as the client library has it.
func headerOf(value any) any {
	switch v := value.(type) {
	case message.Table:
		t := amqp.Table{}
		for _, f := range v {
			t[f.Key] = headerOf(f.Value)
		}
		return t
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = headerOf(v[i])
		}
		return list
	case message.Timestamp:
		return time.Unix(int64(v), 0)
	case message.Decimal:
		return amqp.Decimal{Scale: v.Scale, Value: v.Value}
	}
	return value
}
