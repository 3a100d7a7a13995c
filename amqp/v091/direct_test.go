package v091

import (
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

func request(channel uint16, replyTo string) []byte {
	p := message.Properties{Set: message.PropReplyTo, ReplyTo: replyTo}
	b := frame(channel, &wire.BasicPublish{RoutingKey: []byte("server")})
	return append(b, wire.AppendHeader(nil, channel, classBasic, 0, message.AppendProperties(nil, &p))...)
}

func TestDirectReplyToIsAQueueOfTheChannelsOwn(t *testing.T) {
	g := opened(t, 1)
	g.in(frame(1, &wire.BasicConsume{Queue: directQueue, ConsumerTag: "ct", NoAck: true}), request(1, directQueue), request(1, "elsewhere"))
	got := g.commands()
	if len(got) != 4 || !strings.Contains(got[0], `Name="amq.rabbitmq.reply-to.name1"`) || !strings.Contains(got[1], `Queue="amq.rabbitmq.reply-to.name1" Tag="ct"`) ||
		!strings.Contains(got[2], "reply-to.name1") || !strings.Contains(got[3], "elsewhere") {
		t.Errorf("commands:\n%s", strings.Join(got, "\n"))
	}
}

func TestA23_DirectReplyToIsRefused(t *testing.T) {
	consume := func(noAck bool) []byte { return frame(1, &wire.BasicConsume{Queue: directQueue, NoAck: noAck}) }
	for _, c := range []struct {
		name, want string
		in         [][]byte
	}{
		{"with acknowledgements", "406 PRECONDITION_FAILED - reply consumer cannot acknowledge", [][]byte{consume(false)}},
		{"twice", "406 PRECONDITION_FAILED - reply consumer already set", [][]byte{consume(true), consume(true)}},
		{"without a consumer", "406 PRECONDITION_FAILED - fast reply consumer does not exist", [][]byte{request(1, directQueue)}},
		{"after its cancel", "406 PRECONDITION_FAILED - fast reply consumer does not exist", [][]byte{
			frame(1, &wire.BasicConsume{Queue: directQueue, ConsumerTag: "ct", NoAck: true}), frame(1, &wire.BasicCancel{ConsumerTag: "ct"}), request(1, directQueue)}},
		{"bound", "403 ACCESS_REFUSED - cannot bind or unbind to a volatile (direct reply-to) queue", [][]byte{frame(1, &wire.QueueBind{Queue: directQueue, Exchange: "amq.topic"})}},
	} {
		g := opened(t, 1)
		got := strings.Join(g.in(c.in...), " ")
		code, text, _ := strings.Cut(c.want, " ")
		if !strings.Contains(got, "ChannelClose ReplyCode="+code) || !strings.Contains(got, text) {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func TestDirectReplyToQueueIsAlwaysDeclared(t *testing.T) {
	g := opened(t, 1)
	want(t, "too early", g.in(frame(1, &wire.QueueDeclare{Queue: directQueue, Passive: true})))
	want(t, "declare", g.tell(status(1)), `1 QueueDeclareOk Queue="amq.rabbitmq.reply-to" ConsumerCount=1`)
}

func TestTransactionsAreCommands(t *testing.T) {
	g := opened(t, 1)
	g.in(frame(1, &wire.TxSelect{}), frame(1, &wire.TxCommit{}), frame(1, &wire.TxRollback{}))
	if got := strings.Join(g.commands(), " "); !strings.Contains(got, "TxSelect") || !strings.Contains(got, "TxCommit") || !strings.Contains(got, "TxRollback") {
		t.Errorf("commands %s", got)
	}
	want(t, "answers", g.tell(reply(1, entry.KindTxSelect), reply(1, entry.KindTxCommit), reply(1, entry.KindTxRollback)),
		"1 TxSelectOk", "1 TxCommitOk", "1 TxRollbackOk")
}
