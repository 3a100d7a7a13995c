package main

import (
	"reflect"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/core/message"
)

func TestAMessageInQuarantineIsAsItWasButForWhatABrokerActsOn(t *testing.T) {
	own := message.Table{
		{Key: "table", Value: message.Table{{Key: "n", Value: uint16(3)}}}, {Key: "list", Value: []any{int64(1), message.Decimal{Scale: 2, Value: 7}}},
		{Key: "at", Value: message.Timestamp(9)}, {Key: "none", Value: nil}, {Key: "bytes", Value: []byte{1}},
		{Key: "BCC", Value: []any{"secret"}}, {Key: "x-pub-seq", Value: int64(4)},
	}
	p := lostPublish{group: 2, index: 30, place: 1, vhost: "orders", Record: message.Record{
		Exchange: []byte("x"), RoutingKey: []byte("k"), Body: []byte("body"),
		Properties: message.AppendProperties(nil, &message.Properties{
			Set: message.PropHeaders | message.PropDeliveryMode | message.PropUserID | message.PropExpiration | message.PropMessageID |
				message.PropTimestamp | message.PropPriority,
			Headers: message.AppendTable(nil, own), DeliveryMode: 2, UserID: "ann", Expiration: "5", MessageID: "id", Timestamp: 8, Priority: 6,
		}),
	}}
	got, err := p.publishing()
	if err != nil {
		t.Fatal(err)
	}
	want := amqp.Publishing{DeliveryMode: 2, MessageId: "id", Timestamp: time.Unix(8, 0), Priority: 6, Body: []byte("body"), Headers: amqp.Table{
		"table": amqp.Table{"n": uint16(3)}, "list": []any{int64(1), amqp.Decimal{Scale: 2, Value: 7}}, "at": time.Unix(9, 0), "none": nil,
		"bytes": []byte{1}, "x-lost-BCC": []any{"secret"}, "x-lost-x-pub-seq": int64(4), "x-lost-user-id": "ann", "x-lost-expiration": "5",
		"x-lost-vhost": "orders", "x-lost-exchange": "x", "x-lost-routing-key": "k", "x-lost-entry": "2/30/1",
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if err := got.Headers.Validate(); err != nil {
		t.Errorf("the client library does not take the headers: %v", err)
	}
}
