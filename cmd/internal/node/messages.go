package node

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/understudy-mq/understudy/cmd/internal/admin"
	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/jsontable"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
	"github.com/understudy-mq/understudy/session"
)

const (
	getBytesMax   = 32 << 20        // of the messages that one call gets; then it answers those
	getTime       = 5 * time.Second // after which a call answers what it has
	fragmentBytes = 512 << 10       // of a body, in one command
)

// settlements are what becomes of messages that were got.
var settlements = map[string]entry.Outcome{
	api.AckRequeue: entry.Released, api.AckRemove: entry.Accepted, api.RejectRequeue: entry.Modified, api.RejectRemove: entry.Rejected,
}

// GetMessages gets messages from the head of a queue, as an AMQP client does with basic.get: all that are asked for are taken,
// and then settled.
func (n *Node) GetMessages(ctx context.Context, user, vhost, queue string, q api.GetMessages) ([]api.Message, error) {
	outcome, known := settlements[q.AckMode]
	switch {
	case q.Count < 0:
		return nil, errors.New("count is negative")
	case !known:
		return nil, fmt.Errorf("unknown ackmode '%s'", q.AckMode)
	case q.Encoding != api.EncodingAuto && q.Encoding != api.EncodingBase64:
		return nil, fmt.Errorf("unknown encoding '%s': there are auto and base64", q.Encoding)
	}
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	t, err := n.errand(ctx, user, vhost)
	if err != nil {
		return nil, err
	}
	defer t.End()
	rows, last, err := t.getSome(ctx, queue, q)
	if err != nil {
		return nil, err
	}
	if last > 0 {
		t.Settle(errandChannel, outcome, true, 0, last)
	}
	_, err = t.do(ctx, &entry.ChannelClose{Ref: onErrand(), Reply: true}) // once it answers, the settlement is applied
	return rows, err
}

// getSome gets messages one after the other; last is the newest one's tag.
func (t *errand) getSome(ctx context.Context, queue string, q api.GetMessages) (rows []api.Message, last uint64, err error) {
	rows = []api.Message{}
	until := time.Now().Add(getTime)
	for bytes := uint64(0); len(rows) < int(q.Count) && bytes < getBytesMax && time.Now().Before(until); {
		e, err := t.do(ctx, &entry.Get{Ref: onErrand(), Queue: queue})
		if err != nil {
			return nil, 0, err
		}
		if e.Kind != core.EffectGot {
			break
		}
		last = e.Tag
		row, err := t.render(&e, q)
		if err != nil {
			return nil, 0, err
		}
		rows = append(rows, row)
		bytes += row.PayloadBytes
	}
	return rows, last, nil
}

// render reads a message that was got.
func (t *errand) render(e *session.Event, q api.GetMessages) (api.Message, error) {
	record, parts, err := t.Content(e)
	if err != nil {
		return api.Message{}, admin.Unavailable{Err: err}
	}
	var r message.Record
	if err := message.ParseRecord(record, &r); err != nil {
		return api.Message{}, err
	}
	core.Render(&r, e.Extra)
	body := slices.Concat(append(parts, r.Body)...)
	row := api.Message{
		PayloadBytes: r.BodySize, Redelivered: e.Redelivered, Exchange: string(r.Exchange), RoutingKey: string(r.RoutingKey),
		MessageCount: e.Messages, Properties: propertiesOf(r.Properties), PayloadEncoding: api.EncodingString,
	}
	if q.Truncate != nil {
		body = body[:min(len(body), max(int(*q.Truncate), 0))]
	}
	if q.Encoding == api.EncodingBase64 || !utf8.Valid(body) {
		row.Payload, row.PayloadEncoding = base64.StdEncoding.EncodeToString(body), api.EncodingBase64
	} else {
		row.Payload = string(body)
	}
	return row, nil
}

// propertiesOf renders a property list for JSON.
func propertiesOf(b []byte) map[string]any {
	out := map[string]any{}
	p, err := message.ParseProperties(b)
	if err != nil {
		return out
	}
	for _, x := range []struct {
		property message.Property
		name     string
		value    any
	}{
		{message.PropContentType, "content_type", p.ContentType}, {message.PropContentEncoding, "content_encoding", p.ContentEncoding},
		{message.PropHeaders, "headers", jsontable.Decode(p.Headers)}, {message.PropDeliveryMode, "delivery_mode", p.DeliveryMode},
		{message.PropPriority, "priority", p.Priority}, {message.PropCorrelationID, "correlation_id", p.CorrelationID},
		{message.PropReplyTo, "reply_to", p.ReplyTo}, {message.PropExpiration, "expiration", p.Expiration},
		{message.PropMessageID, "message_id", p.MessageID}, {message.PropTimestamp, "timestamp", int64(p.Timestamp)},
		{message.PropType, "type", p.Type}, {message.PropUserID, "user_id", p.UserID}, {message.PropAppID, "app_id", p.AppID},
		{message.PropClusterID, "cluster_id", p.ClusterID},
	} {
		if p.Has(x.property) {
			out[x.name] = x.value
		}
	}
	return out
}

// PublishMessage publishes a message, and says once it is confirmed whether it was routed to a queue.
func (n *Node) PublishMessage(ctx context.Context, user, vhost, exchange string, p api.PublishMessage) (routed bool, err error) {
	rec, body, err := n.recordOf(user, exchange, p)
	if err != nil {
		return false, err
	}
	if reason, wait := n.broker.Flow().Blocked(vhost); wait {
		return false, admin.Unavailable{Err: fmt.Errorf("publishers have to wait: %s", reason)}
	}
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	t, err := n.errand(ctx, user, vhost)
	if err != nil {
		return false, err
	}
	defer t.End()
	if _, err := t.do(ctx, &entry.ConfirmSelect{Ref: onErrand()}); err != nil {
		return false, err
	}
	fragmented := len(body) > fragmentBytes
	for len(body) > fragmentBytes {
		t.Fragment(errandChannel, body[:fragmentBytes])
		body = body[fragmentBytes:]
	}
	rec.Body = body
	t.Publish(errandChannel, true, fragmented, &rec)
	for routed = true; ; {
		e, err := t.answer(ctx)
		switch {
		case err != nil:
			return false, err
		case e.Kind == core.EffectReturned:
			routed = false
		case e.Kind == core.EffectNacked:
			return false, errors.New("a queue that the message goes to is full and refuses it")
		case e.Kind == core.EffectConfirmed:
			return routed, nil
		}
	}
}

// recordOf makes a record of a message; its body comes apart.
func (n *Node) recordOf(user, exchange string, p api.PublishMessage) (rec message.Record, body []byte, err error) {
	body = []byte(p.Payload)
	switch p.PayloadEncoding {
	case "", api.EncodingString:
	case api.EncodingBase64:
		if body, err = base64.StdEncoding.DecodeString(p.Payload); err != nil {
			return rec, nil, fmt.Errorf("payload is no base64: %w", err)
		}
	default:
		return rec, nil, fmt.Errorf("unknown payload_encoding '%s': there are string and base64", p.PayloadEncoding)
	}
	if most := int64(n.cfg.MaxMessageBytes); int64(len(body)) > most {
		return rec, nil, fmt.Errorf("message size %d is larger than configured max size %d", len(body), most)
	}
	for what, name := range map[string]string{"exchange name": exchange, "routing key": p.RoutingKey} {
		if len(name) > math.MaxUint8 {
			return rec, nil, fmt.Errorf("%s has %d bytes, at most %d are allowed", what, len(name), math.MaxUint8)
		}
	}
	properties, err := encodeProperties(user, p.Properties)
	rec = message.Record{
		Form: message.FormAMQP091, Exchange: []byte(exchange), RoutingKey: []byte(p.RoutingKey), Properties: properties, BodySize: uint64(len(body)),
	}
	return rec, body, err
}

// encodeProperties makes a property list, by the rules for AMQP clients.
func encodeProperties(user string, p api.MessageProperties) ([]byte, error) {
	var x message.Properties
	if err := errors.Join(setTexts(&x, p), setOctet(&x, message.PropDeliveryMode, p.DeliveryMode, &x.DeliveryMode),
		setOctet(&x, message.PropPriority, p.Priority, &x.Priority)); err != nil {
		return nil, err
	}
	if p.Timestamp != nil {
		x.Timestamp = message.Timestamp(*p.Timestamp)
		x.Set |= message.PropTimestamp
	}
	if p.Headers != nil {
		var err error
		if x.Headers, err = jsontable.Encode(p.Headers); err != nil {
			return nil, fmt.Errorf("headers: %w", err)
		}
		x.Set |= message.PropHeaders
	}
	return message.AppendProperties(nil, &x), checkPromises(user, &x)
}

func setTexts(x *message.Properties, p api.MessageProperties) error {
	for _, text := range []struct {
		property message.Property
		from     *string
		to       *string
	}{
		{message.PropContentType, p.ContentType, &x.ContentType}, {message.PropContentEncoding, p.ContentEncoding, &x.ContentEncoding},
		{message.PropCorrelationID, p.CorrelationID, &x.CorrelationID}, {message.PropReplyTo, p.ReplyTo, &x.ReplyTo},
		{message.PropExpiration, p.Expiration, &x.Expiration}, {message.PropMessageID, p.MessageID, &x.MessageID},
		{message.PropType, p.Type, &x.Type}, {message.PropUserID, p.UserID, &x.UserID}, {message.PropAppID, p.AppID, &x.AppID},
		{message.PropClusterID, p.ClusterID, &x.ClusterID},
	} {
		if text.from == nil {
			continue
		}
		if len(*text.from) > math.MaxUint8 {
			return fmt.Errorf("a property has %d bytes, at most %d are allowed", len(*text.from), math.MaxUint8)
		}
		*text.to = *text.from
		x.Set |= text.property
	}
	return nil
}

func setOctet(x *message.Properties, property message.Property, from *api.Int, to *uint8) error {
	if from == nil {
		return nil
	}
	if *from < 0 || *from > math.MaxUint8 {
		return fmt.Errorf("%d is not from 0 to %d", *from, math.MaxUint8)
	}
	*to = uint8(*from)
	x.Set |= property
	return nil
}

// checkPromises judges the properties that make promises: who published, and for how long.
func checkPromises(user string, x *message.Properties) error {
	if x.Has(message.PropUserID) && x.UserID != user {
		return fmt.Errorf("user_id property set to '%s' but authenticated user was '%s'", x.UserID, user)
	}
	if _, err := strconv.ParseUint(cmp.Or(x.Expiration, "0"), 10, 32); err != nil || x.Has(message.PropExpiration) && x.Expiration == "" {
		return fmt.Errorf("invalid expiration '%s': milliseconds from 0 to %d are wanted", x.Expiration, uint32(math.MaxUint32))
	}
	return nil
}

var _ admin.Messages = (*Node)(nil)
