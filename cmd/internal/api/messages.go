package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// Bool is a truth value that tools send as JSON's or as text.
type Bool bool

// UnmarshalJSON reads true, false, "true" and "false".
func (b *Bool) UnmarshalJSON(text []byte) error {
	switch string(bytes.Trim(text, `"`)) {
	case "true":
		*b = true
	case "false":
		*b = false
	default:
		return fmt.Errorf("%s is neither true nor false", text)
	}
	return nil
}

// Int is a whole number that tools send as JSON's or as text.
type Int int

// UnmarshalJSON reads 5 and "5".
func (n *Int) UnmarshalJSON(text []byte) error {
	v, err := strconv.Atoi(string(bytes.Trim(text, `"`)))
	if err != nil {
		return fmt.Errorf("%s is no whole number", text)
	}
	*n = Int(v)
	return nil
}

// The ways in which messages that were got are settled.
const (
	AckRequeue    = "ack_requeue_true"  // they return, as if never delivered
	AckRemove     = "ack_requeue_false" // they are gone
	RejectRequeue = "reject_requeue_true"
	RejectRemove  = "reject_requeue_false" // to the dead letters, where the queue has them
)

// The forms of a payload in JSON.
const (
	EncodingAuto   = "auto" // text where it is UTF-8, base64 else
	EncodingString = "string"
	EncodingBase64 = "base64"
)

// GetMessages is the body of POST /api/queues/VHOST/NAME/get.
type GetMessages struct {
	Count    Int    `json:"count"`
	AckMode  string `json:"ackmode"`
	Requeue  *Bool  `json:"requeue,omitempty"`  // what older tools send for an ackmode
	Encoding string `json:"encoding"`           // auto or base64
	Truncate *Int   `json:"truncate,omitempty"` // bytes of a payload that are wanted
}

// Message is one message of the answer.
type Message struct {
	PayloadBytes    uint64         `json:"payload_bytes"`
	Redelivered     bool           `json:"redelivered"`
	Exchange        string         `json:"exchange"`
	RoutingKey      string         `json:"routing_key"`
	MessageCount    uint32         `json:"message_count"` // ready ones left in the queue
	Properties      map[string]any `json:"properties"`
	Payload         string         `json:"payload"`
	PayloadEncoding string         `json:"payload_encoding"`
}

// PublishMessage is the body of POST /api/exchanges/VHOST/NAME/publish.
type PublishMessage struct {
	RoutingKey      string            `json:"routing_key"`
	Payload         string            `json:"payload"`
	PayloadEncoding string            `json:"payload_encoding"` // string or base64
	Properties      MessageProperties `json:"properties"`
}

// MessageProperties are a message's, by AMQP's names with underscores. No property is an empty object, or as RabbitMQ has it
// an empty list.
type MessageProperties struct {
	ContentType     *string                    `json:"content_type"`
	ContentEncoding *string                    `json:"content_encoding"`
	Headers         map[string]json.RawMessage `json:"headers"`
	DeliveryMode    *Int                       `json:"delivery_mode"`
	Priority        *Int                       `json:"priority"`
	CorrelationID   *string                    `json:"correlation_id"`
	ReplyTo         *string                    `json:"reply_to"`
	Expiration      *string                    `json:"expiration"`
	MessageID       *string                    `json:"message_id"`
	Timestamp       *Int                       `json:"timestamp"` // Unix seconds
	Type            *string                    `json:"type"`
	UserID          *string                    `json:"user_id"`
	AppID           *string                    `json:"app_id"`
	ClusterID       *string                    `json:"cluster_id"`
}

// UnmarshalJSON reads an object, or an empty list for none.
func (p *MessageProperties) UnmarshalJSON(text []byte) error {
	if string(bytes.TrimSpace(text)) == "[]" {
		return nil
	}
	type plain MessageProperties
	return json.Unmarshal(text, (*plain)(p))
}

// Published is the answer of a publish.
type Published struct {
	Routed bool `json:"routed"` // to a queue at least
}
