package cases

import (
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/interop/rawclient"
)

// pipelined sends calls in one write.
func (c *client) pipelined(calls ...[]byte) {
	c.t.Helper()
	var b []byte
	for _, call := range calls {
		b = append(b, call...)
	}
	c.write(b)
}

// calling is a call on channel 1.
func calling(method string, arguments ...any) []byte {
	return rawclient.AppendCall(nil, 1, method, arguments...)
}

func TestWalkRefusalComesBehindTheAnswersToWhatWasSentBefore(t *testing.T) {
	c := connect(t)
	c.pipelined(calling("basic.qos", 0, 1), calling("exchange.declare", "amq.direct", "", true), calling("basic.get", ""))
	c.want("basic.qos-ok", "exchange.declare-ok", "channel.close 404 NOT_FOUND - no previously declared queue")
}

func TestWalkRefusalBehindAChannelThatIsOpenedAgainIsTold(t *testing.T) {
	c := connect(t)
	c.publish(name(t, "none"), "k", "refused")
	c.want("channel.close 404")
	c.pipelined(calling("channel.close-ok"), calling("channel.open"), calling("basic.get", ""))
	c.want("channel.open-ok", "channel.close 404 NOT_FOUND - no previously declared queue")
}

func TestWalkFlowOkKeepsItsPlace(t *testing.T) {
	c := connect(t)
	c.call(1, "channel.close-ok", "channel.close", 200)
	c.pipelined(calling("channel.open"), calling("channel.flow", true), calling("basic.qos", 0, 1), calling("channel.flow", true))
	c.want("channel.open-ok", "channel.flow-ok", "basic.qos-ok", "channel.flow-ok")
}

func TestWalkMissingSourceOfABindingIsNamedFirst(t *testing.T) {
	c := connect(t)
	from, to := name(t, "from"), name(t, "to")
	c.refused("404 NOT_FOUND - no exchange '"+from, "queue.bind", to, from, "k")
	c.refused("404 NOT_FOUND - no exchange '"+from, "exchange.bind", to, from, "k")
}

func TestWalkLineEndsAreTakenOutOfAllNames(t *testing.T) {
	c := connect(t)
	q, x := c.queue(nil), c.exchange("fanout", nil)
	broken := func(name string) string { return name[:3] + "\r\n" + name[3:] + "\n" }
	c.call(1, "queue.bind-ok", "queue.bind", broken(q), broken(x), "k")
	c.publish(x, "k", "bound")
	c.routed()
	c.wantBodies(q, "bound")
	c.call(1, "exchange.bind-ok", "exchange.bind", broken(x), "amq.topic", "k")
	c.call(1, "exchange.unbind-ok", "exchange.unbind", broken(x), "amq.topic", "k")
	c.call(1, "queue.unbind-ok", "queue.unbind", broken(q), broken(x), "k")
	c.publish(x, "k", "unbound")
	c.routed()
	c.wantBodies(q)
	c.call(1, "queue.delete-ok", "queue.delete", broken(q))
	c.refused("404", "queue.declare", q, true)
}

func TestWalkModeAndVersionOfAQueueAreCompared(t *testing.T) {
	c := connect(t)
	q := c.queue(table{"x-queue-mode": "default"})
	others := table{"x-queue-mode": "lazy", "x-queue-version": 1}
	for argument, value := range others {
		arguments := table{"x-queue-mode": "default", argument: value}
		c.refused("406 PRECONDITION_FAILED - inequivalent arg '"+argument, "queue.declare", q, false, true, false, false, false, arguments)
	}
}

func TestWalkConsumersTagIsJudgedBeforeItsQueueAndItsArgumentsBeforeItsRights(t *testing.T) {
	c := connect(t)
	q := c.queue(nil)
	c.consume(q, "t")
	c.refused("406 PRECONDITION_FAILED - invalid arg 'x-priority' for queue '"+q, "basic.consume", q, "u", false, false, true, false, table{"x-priority": "1"})
	c.consume(q, "t")
	c.call(1, "connection.close 530 NOT_ALLOWED - attempt to reuse consumer tag 't'", "basic.consume", name(t, "none"), "t")
}

func TestWalkExpirationMayBeTenYears(t *testing.T) {
	c := connect(t)
	q := c.queue(nil)
	c.confirming()
	for i, expiration := range []string{"4294967296", "7776000000", "315360000000"} {
		c.publishWith("", q, props{Expiration: expiration}, expiration)
		c.confirmed(uint64(i+1), uint64(i+1))
	}
	c.wantBodies(q, "4294967296", "7776000000", "315360000000")
	c.publishWith("", q, props{Expiration: "315360000001"}, "")
	c.want("channel.close 406 PRECONDITION_FAILED - invalid expiration '315360000001': {value_too_large,315360000001}")
}

func TestWalkTextThatIsTooLongSaysThatItIsCut(t *testing.T) {
	c := connect(t)
	c.send(1, "basic.get", strings.Repeat("q", 255))
	if text := c.want("channel.close 404 NOT_FOUND - no queue 'qqq").Text(1); len(text) != 255 || !strings.HasSuffix(text, "qqq...") {
		t.Errorf("%d octets: %s", len(text), text)
	}
}

func TestWalkFullQueueThatRefusesTakesNoDeadLetters(t *testing.T) {
	c := connect(t)
	letters := c.queue(table{"x-max-length": 1, "x-overflow": "reject-publish"})
	q := c.queue(table{"x-max-length": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": letters})
	c.confirming()
	for i, body := range []string{"first", "second", "third", "fourth"} {
		c.publish("", q, body)
		c.confirmed(uint64(i+1), uint64(i+1))
		if i > 0 {
			c.awaitReady(letters, 1)
		}
	}
	c.wantBodies(letters, "first")
	c.wantBodies(q, "fourth")
}

func TestWalkPrefetchOfConsumersEndsTheCommonOneOfTheChannel(t *testing.T) {
	c := connect(t)
	q := c.queue(nil)
	for _, body := range []string{"1", "2", "3", "4"} {
		c.publish("", q, body)
	}
	c.call(1, "basic.qos-ok", "basic.qos", 0, 1, true)
	c.consume(q, "t")
	c.delivery("1")
	c.call(1, "basic.qos-ok", "basic.qos", 0, 2, false)
	for _, body := range []string{"2", "3", "4"} { // the consumer was begun without a limit of its own
		c.delivery(body)
	}
}

func TestWalkQueueThatIsNeitherEmptyNorUnusedIsSaidNotToBeEmpty(t *testing.T) {
	c := connect(t)
	q := c.queue(nil)
	c.call(1, "basic.qos-ok", "basic.qos", 0, 1)
	c.consume(q, "t")
	c.publish("", q, "taken")
	c.delivery("taken")
	c.publish("", q, "ready")
	c.call(1, "channel.close 406 PRECONDITION_FAILED - queue '"+q+"' in vhost '/' not empty", "queue.delete", q, true, true)
}

func TestWalkDeadLetterExchangeIsJudgedBeforeTheTypeOfTheQueue(t *testing.T) {
	c := connect(t)
	q := name(t, "q")
	c.refused("406 PRECONDITION_FAILED - invalid type 'bool' for arg 'x-dead-letter-exchange' in queue '"+q,
		"queue.declare", q, false, true, false, false, false, table{"x-dead-letter-exchange": true, "x-queue-type": "nope"})
}
