package v091

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/session"
)

// published is a message for queue q.
func published(channel uint16, body string) []byte { return publish(channel, "", "q", body) }

// alarmed is a rig with open channels whose client hears of alarms, while there is one.
func alarmed(t *testing.T, channels ...uint16) *rig {
	g := opened(t, channels...)
	g.recv.client.connectionBlocked = true
	g.opts.Flow.SetAll("low on disk")
	return g
}

// clear ends the alarm and answers the frames that come of it.
func (g *rig) clear() []string {
	g.opts.Flow.SetAll("")
	g.recv.flowChanged()
	if err := g.recv.flush(); err != nil {
		g.t.Fatal(err)
	}
	return g.frames()
}

const blockedFrame, unblockedFrame = `0 ConnectionBlocked Reason="low on disk"`, `0 ConnectionUnblocked`

func contains(commands []string, word string) (n int) {
	for _, c := range commands {
		if strings.Contains(c, word) {
			n++
		}
	}
	return n
}

func TestAPublisherIsToldOfAnAlarmAtItsFirstPublishAndOnce(t *testing.T) {
	g := alarmed(t, 1)
	want(t, "before it publishes", g.frames())
	want(t, "at its first publish", g.in(published(1, "a")), blockedFrame)
	want(t, "at its second", g.in(published(1, "b")))
	if got := g.commands(); len(got) > 0 {
		t.Errorf("while there is an alarm the broker was told %q", got)
	}
	want(t, "after the alarm", g.clear(), unblockedFrame)
	if got := g.commands(); len(got) != 2 || !strings.Contains(got[0], `"a"`) || !strings.Contains(got[1], `"b"`) {
		t.Errorf("after the alarm the broker was told %q, want both publishes in order", got)
	}
}

func TestAVhostsPublishersWaitUntilNoReasonIsLeft(t *testing.T) {
	g := opened(t, 1) // in vhost "/"
	g.recv.client.connectionBlocked = true
	g.opts.Flow.SetVhosts(map[string]string{"other": "its standby is behind"})
	want(t, "while another vhost's wait", g.in(published(1, "a")))
	if got := g.commands(); contains(got, "Publish") != 1 {
		t.Errorf("while another vhost's wait: %q", got)
	}
	g.opts.Flow.SetVhosts(map[string]string{"/": "its standby is behind"})
	want(t, "at a publish", g.in(published(1, "b")), `0 ConnectionBlocked Reason="its standby is behind"`)
	g.opts.Flow.SetAll("low on disk")
	want(t, "with an alarm, and the vhost still waits", g.clear())
	if got := g.commands(); len(got) > 0 {
		t.Errorf("while its vhost's wait the broker was told %q", got)
	}
	g.opts.Flow.SetVhosts(nil)
	want(t, "with neither", g.clear(), unblockedFrame)
	if got := g.commands(); contains(got, "Publish") != 1 {
		t.Errorf("after all: %q", got)
	}
}

func TestAClientThatAnnouncedNothingIsHeldBackAndNotTold(t *testing.T) {
	g := alarmed(t, 1)
	g.recv.client.connectionBlocked = false
	want(t, "at a publish", g.in(published(1, "a")))
	want(t, "after the alarm", g.clear())
	if n := contains(g.commands(), "Publish"); n != 1 {
		t.Errorf("%d publishes, want 1", n)
	}
}

func TestAcknowledgementsGoAheadOfPublishesThatAreHeldBack(t *testing.T) {
	g := alarmed(t, 1, 2)
	g.in(published(1, "a"), frame(1, &wire.BasicAck{DeliveryTag: 1}), frame(1, &wire.BasicReject{DeliveryTag: 2}), frame(1, &wire.BasicNack{DeliveryTag: 3}))
	if got := g.commands(); contains(got, "Settle") != 3 || len(got) != 3 {
		t.Errorf("on the channel of the publish: %q, want three settlements", got)
	}
	g.in(frame(2, &wire.QueueDelete{Queue: "q"}), frame(2, &wire.BasicConsume{Queue: "p"}))
	if got := g.commands(); contains(got, "QueueDelete") != 1 || contains(got, "Consume") != 1 {
		t.Errorf("on another channel: %q, want the delete and the consume", got)
	}
}

func TestWhatFollowsAPublishThatIsHeldBackKeepsItsPlace(t *testing.T) {
	g := alarmed(t, 1)
	g.in(published(1, "a"), frame(1, &wire.QueuePurge{Queue: "q"}), frame(1, &wire.ChannelClose{}))
	if got := g.commands(); len(got) > 0 {
		t.Errorf("while there is an alarm: %q", got)
	}
	g.clear()
	if got := strings.Join(g.commands(), "\n"); !ordered(got, "Publish", "QueuePurge", "ChannelClose") {
		t.Errorf("after the alarm: %s", got)
	}
}

func ordered(text string, words ...string) bool {
	for _, w := range words {
		_, rest, ok := strings.Cut(text, w)
		if !ok {
			return false
		}
		text = rest
	}
	return true
}

func TestAcknowledgementsOfATransactionWaitForItsPublishes(t *testing.T) {
	g := opened(t, 1)
	g.in(frame(1, &wire.TxSelect{}))
	g.commands()
	g.opts.Flow.SetAll("low on memory")
	g.in(published(1, "a"), frame(1, &wire.BasicAck{DeliveryTag: 1}), frame(1, &wire.TxCommit{}))
	if got := g.commands(); len(got) > 0 {
		t.Errorf("while there is an alarm: %q", got)
	}
	g.clear()
	if got := strings.Join(g.commands(), "\n"); !ordered(got, "Publish", "Settle", "TxCommit") {
		t.Errorf("after the alarm: %s", got)
	}
}

func TestAMessageThatHadBegunBeforeTheAlarmIsTaken(t *testing.T) {
	g := opened(t, 1)
	g.in(frame(1, &wire.BasicPublish{RoutingKey: []byte("q")}))
	g.opts.Flow.SetAll("low on disk")
	g.in(header(1, 5), bodyOf(1, "whole"))
	if got := g.commands(); contains(got, "whole") != 1 {
		t.Errorf("%q, want the message", got)
	}
}

func TestACloseWaitsForWhatWasPublishedBeforeIt(t *testing.T) {
	g := alarmed(t, 1)
	want(t, "a publish and a close", g.in(published(1, "a"), frame(0, &wire.ConnectionClose{ReplyCode: 200})), blockedFrame)
	if g.session.ended != "" {
		t.Error("the session has ended")
	}
	want(t, "after the alarm", g.clear(), unblockedFrame, "0 ConnectionCloseOk")
	if got := g.commands(); contains(got, "Publish") != 1 || g.session.ended != "end" {
		t.Errorf("%q, session %q", got, g.session.ended)
	}
}

func TestAChannelThatFailedForgetsWhatItHeldBack(t *testing.T) {
	g := alarmed(t, 1)
	g.in(published(1, "a"))
	g.recv.shared.failed.add(1)
	g.in(frame(1, &wire.ChannelCloseOk{}))
	g.commands()
	if g.recv.hold.bytes != 0 {
		t.Errorf("%d bytes are held back", g.recv.hold.bytes)
	}
	g.clear()
	if got := g.commands(); len(got) > 0 {
		t.Errorf("after the alarm: %q", got)
	}
}

func TestWhatIsHeldBackIsBounded(t *testing.T) {
	g := alarmed(t, 1)
	g.in(published(1, strings.Repeat("x", 1000)))
	if g.recv.hold.full() {
		t.Error("full after a kilobyte")
	}
	big := strings.Repeat("x", 100_000)
	for range heldBytesMax/len(big) + 1 {
		g.in(published(1, big))
	}
	if !g.recv.hold.full() {
		t.Errorf("not full with %d bytes", g.recv.hold.bytes)
	}
	other := alarmed(t, 1)
	other.opts.Flow.Hold(64 << 20) // by other connections
	other.in(published(1, "x"))
	if !other.recv.hold.full() {
		t.Error("not full while all together hold too much")
	}
	g.clear()
	if g.recv.hold.full() || !g.opts.Flow.Hold(64<<20-1) {
		t.Errorf("after the alarm %d bytes are held", g.recv.hold.bytes)
	}
}

// blocking is an Options change that has the connection heed flow.
func blocking(flow *session.Flow) func(*Options) { return func(o *Options) { o.Flow = flow } }

func TestAClientThatPublishesOnAndOnIsNotReadUntilTheAlarmIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var flow session.Flow
		p := connect(t, blocking(&flow))
		p.open(10)
		flow.SetAll("low on memory")
		const publishes = 40
		sent := make(chan error, 1)
		go func() {
			for range publishes {
				if _, err := p.nc.Write(published(1, strings.Repeat("x", 100_000))); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		time.Sleep(time.Hour) // the client is not heard of, but it is the broker that does not listen
		synctest.Wait()
		select {
		case err := <-sent:
			t.Fatalf("all was read: %v", err)
		default:
		}
		if held := p.conn.recv.hold.bytes; p.closed() || held > 2*heldBytesMax {
			t.Fatalf("closed %t, %d bytes held", p.closed(), held)
		}
		if p.conn.Info().State != "blocked" {
			t.Errorf("state %q", p.conn.Info().State)
		}
		flow.SetAll("")
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := contains(p.session.told(), "Publish"); n != publishes || p.conn.Info().State != "running" {
			t.Errorf("%d publishes, want %d; state %q", n, publishes, p.conn.Info().State)
		}
		p.finish()
		if !flow.Hold(64<<20 - 1) {
			t.Error("bytes are still counted as held")
		}
	})
}

func TestAnIdleClientHearsOfTheEndOfAnAlarmAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var flow session.Flow
		p := connect(t, blocking(&flow))
		p.open(0)
		flow.SetAll("low on disk")
		p.send(published(1, "a"))
		for i := range 3 { // changes of the reason interrupt it too
			flow.SetAll(fmt.Sprint("reason ", i))
			synctest.Wait()
		}
		if got := p.session.told(); len(got) > 0 {
			t.Fatalf("while there is an alarm: %q", got)
		}
		flow.SetAll("")
		synctest.Wait()
		if n := contains(p.session.told(), "Publish"); n != 1 || p.closed() {
			t.Errorf("%d publishes, closed %t", n, p.closed())
		}
		p.finish()
	})
}

func TestAClientThatGoesDuringAnAlarmLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var flow session.Flow
		p := connect(t, blocking(&flow))
		p.open(0)
		flow.SetAll("low on disk")
		p.send(published(1, "a"))
		p.finish()
		if !flow.Hold(64<<20 - 1) {
			t.Error("its bytes are still counted as held")
		}
		flow.SetAll("")
		if n := contains(p.session.told(), "Publish"); n != 0 {
			t.Errorf("%d publishes of a client that is gone", n)
		}
	})
}
