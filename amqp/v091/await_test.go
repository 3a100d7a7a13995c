package v091

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/session"
)

// occupied is a rig with open channels where a queue called "mine" is another connection's.
func occupied(t *testing.T, channels ...uint16) *rig {
	g := opened(t, channels...)
	g.opts.Occupied = func(vhost, queue string) func(context.Context) {
		if vhost != "/" || queue != "mine" {
			return nil
		}
		return func(context.Context) {}
	}
	return g
}

func declare(channel uint16, queue string) []byte {
	return frame(channel, &wire.QueueDeclare{Queue: queue, Exclusive: true})
}

func ack(channel uint16, tag uint64) []byte { return frame(channel, &wire.BasicAck{DeliveryTag: tag}) }

const declaredMine = `QueueDeclare Channel=1 Name="mine" Exclusive=true`

func TestTheDeclarationOfAnOccupiedQueueWaitsAndNothingElse(t *testing.T) {
	g := occupied(t, 1)
	g.in(declare(1, "other"), frame(1, &wire.BasicConsume{Queue: "mine", ConsumerTag: "c"}), frame(1, &wire.QueueDelete{Queue: "mine"}))
	if got := g.commands(); len(got) != 3 || len(g.waits) != 0 {
		t.Errorf("another queue, or another method, waits: %q", got)
	}
	g.in(declare(1, "mine"))
	want(t, "while it waits", g.commands())
	g.resume(g.waits[0])
	want(t, "once it has waited", g.commands(), declaredMine)
	g.in(declare(1, "mine"))
	want(t, "the next one waits again", g.commands())
}

func TestWhatFollowsAWaitingDeclarationWaitsInItsOrderAndOtherChannelsDoNot(t *testing.T) {
	g := occupied(t, 1, 2)
	g.in(declare(1, "mine"), published(1, "a"), ack(1, 1), declare(1, "second"), published(2, "b"), ack(2, 1))
	if got := g.commands(); len(got) != 2 || !strings.Contains(got[0], `Publish 2`) || !strings.Contains(got[1], "Settle 2") {
		t.Errorf("while it waits: %q, want what came on the other channel", got)
	}
	g.in(ack(1, 2), published(2, "c"))
	if got := g.commands(); len(got) != 1 || !strings.Contains(got[0], "Publish 2") {
		t.Errorf("while it waits: %q, want what came on the other channel", got)
	}
	g.resume(g.waits[0])
	want(t, "once it has waited", g.commands(), declaredMine,
		`Publish 1 mandatory=false fragmented=false "" "q" "\x00\x00" "a" of 1`, "Settle 1 outcome=0 multiple=false 1..1",
		`QueueDeclare Channel=1 Name="second" Exclusive=true`, "Settle 1 outcome=0 multiple=false 2..2")
	if g.recv.hold.bytes != 0 || len(g.recv.hold.channels) != 0 {
		t.Errorf("%d bytes of %d channels are still held", g.recv.hold.bytes, len(g.recv.hold.channels))
	}
}

func TestADeclarationBehindAWaitingOneWaitsInItsTurn(t *testing.T) {
	g := occupied(t, 1)
	g.in(declare(1, "mine"), declare(1, "mine"), published(1, "a"))
	g.resume(g.waits[0])
	want(t, "after the first", g.commands(), declaredMine)
	g.resume(g.waits[0])
	want(t, "the first once more", g.commands())
	g.resume(g.waits[1])
	if got := g.commands(); len(got) != 2 || got[0] != declaredMine || !strings.Contains(got[1], "Publish") {
		t.Errorf("after the second: %q", got)
	}
}

func TestAWaitThatEndsDuringAnAlarmKeepsPublishesBack(t *testing.T) {
	g := occupied(t, 1, 2)
	g.in(declare(1, "mine"), published(1, "a"))
	g.opts.Flow.SetAll("low on disk")
	g.in(published(2, "b"))
	g.resume(g.waits[0])
	want(t, "once it has waited", g.commands(), declaredMine)
	g.clear()
	if got := g.commands(); len(got) != 2 || contains(got, "Publish") != 2 {
		t.Errorf("after the alarm: %q", got)
	}
}

func TestTheEndOfAnAlarmEndsNoWait(t *testing.T) {
	g := occupied(t, 1)
	g.in(declare(1, "mine"), published(1, "a"))
	g.clear()
	want(t, "after the alarm", g.commands())
	g.resume(g.waits[0])
	if got := g.commands(); len(got) != 2 {
		t.Errorf("once it has waited: %q", got)
	}
}

func TestAClientThatClosesDoesNotWaitUnlessItPublishedMeanwhile(t *testing.T) {
	channelClose, connectionClose := frame(1, &wire.ChannelClose{}), frame(0, &wire.ConnectionClose{})
	for _, c := range []struct {
		name    string
		between []byte
		close   []byte
		hurries bool
	}{
		{"channel.close", nil, channelClose, true},
		{"channel.close behind an ack", ack(1, 1), channelClose, true},
		{"channel.close behind a publish", published(1, "a"), channelClose, false},
		{"connection.close", nil, connectionClose, true},
		{"connection.close behind a publish", published(1, "a"), connectionClose, false},
		{"connection.close behind another channel's publish", published(2, "a"), connectionClose, true},
	} {
		g := occupied(t, 1, 2)
		g.in(declare(1, "mine"))
		g.in(slices.Concat(c.between, c.close))
		if contains(g.commands(), "QueueDeclare") != 0 || g.session.ended != "" {
			t.Fatalf("%s: it went ahead of the declaration", c.name)
		}
		if got := slices.Contains(g.stopped, 1); got != c.hurries {
			t.Errorf("%s: the wait is ended: %v", c.name, got)
		}
		frames := g.resume(g.waits[0])
		got := g.commands()
		if len(got) == 0 || got[0] != declaredMine {
			t.Errorf("%s: then %q", c.name, got)
		}
		closed := g.session.ended == "end" && slices.Equal(frames, []string{"0 ConnectionCloseOk"})
		if onChannel := strings.HasPrefix(c.name, "channel"); onChannel == closed || onChannel != (contains(got, "ChannelClose") == 1) {
			t.Errorf("%s: it was told %q, the client %q; ended %q", c.name, got, frames, g.session.ended)
		}
	}
}

func TestAWaitThatItsChannelDidNotSurviveResumesNothing(t *testing.T) {
	g := occupied(t, 1)
	g.in(declare(1, "mine"), published(1, "a"))
	g.tell(session.Event{Kind: core.EffectRefused, Channel: 1, Code: core.CodeNotFound, Text: "of an earlier command"})
	g.in(frame(1, &wire.ChannelCloseOk{}))
	if !slices.Equal(g.stopped, []uint16{1}) || g.recv.hold.bytes != 0 {
		t.Errorf("stopped %v, %d bytes held", g.stopped, g.recv.hold.bytes)
	}
	g.in(frame(1, &wire.ChannelOpen{}), declare(1, "mine"))
	g.commands()
	g.resume(g.waits[0])
	want(t, "the new opening's declaration", g.commands())
	g.resume(g.waits[1])
	want(t, "once it has waited itself", g.commands(), declaredMine)
}

func TestWhatWaitsBehindADeclarationIsBounded(t *testing.T) {
	g := occupied(t, 1)
	g.in(declare(1, "mine"))
	big := strings.Repeat("x", 100_000)
	for range heldBytesMax/len(big) + 1 {
		g.in(published(1, big))
	}
	if !g.recv.hold.full() {
		t.Errorf("not full with %d bytes", g.recv.hold.bytes)
	}
	g.resume(g.waits[0])
	if g.recv.hold.full() || !g.opts.Flow.Hold(64<<20-1) {
		t.Errorf("after the wait %d bytes are held", g.recv.hold.bytes)
	}
}

// vacating is an Options change by which "mine" is occupied until freed is closed.
func vacating(freed <-chan struct{}) func(*Options) {
	return func(o *Options) {
		o.Occupied = func(_, queue string) func(context.Context) {
			select {
			case <-freed:
				return nil
			default:
			}
			return func(ctx context.Context) {
				select {
				case <-freed:
				case <-ctx.Done():
				}
			}
		}
	}
}

func TestOtherChannelsAreServedWhileADeclarationWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		freed := make(chan struct{})
		p := connect(t, vacating(freed))
		p.session.flushes = true
		p.open(1)
		p.send(frame(2, &wire.ChannelOpen{}))
		p.session.forget()
		began := time.Now()
		p.send(declare(1, "mine"))
		for range 9 {
			time.Sleep(time.Second)
			p.send(frame(2, &wire.ConfirmSelect{}), raw(wire.FrameHeartbeat, 0, nil))
			want(t, "while it waits", p.session.told(), "ConfirmSelect Channel=2", "Flush")
			p.session.forget()
		}
		close(freed)
		synctest.Wait()
		want(t, "once the queue is free", p.session.told(), declaredMine, "Flush")
		if waited := time.Since(began); waited != 9*time.Second {
			t.Errorf("it came after %v", waited)
		}
		p.finish()
	})
}

func TestADeclarationWaitsForABoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, vacating(make(chan struct{})))
		p.open(0)
		p.send(declare(1, "mine"))
		time.Sleep(p.conn.opts.OccupiedWait - 1)
		synctest.Wait()
		want(t, "while it has patience", p.session.told())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		want(t, "after all patience", p.session.told(), declaredMine)
		p.finish()
	})
}

func TestAClientThatPublishesOnBehindAWaitingDeclarationIsNotReadUntilItIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		freed := make(chan struct{})
		p := connect(t, vacating(freed))
		p.open(0)
		p.send(declare(1, "mine"))
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
		synctest.Wait()
		select {
		case err := <-sent:
			t.Fatalf("all was read: %v", err)
		default:
		}
		if held := p.conn.recv.hold.bytes; held > 2*heldBytesMax {
			t.Fatalf("%d bytes held", held)
		}
		close(freed)
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := contains(p.session.told(), "Publish"); n != publishes {
			t.Errorf("%d publishes, want %d", n, publishes)
		}
		p.finish()
	})
}

// However a connection ends, its waits do: Serve comes back, and synctest finds goroutines that are left.
func TestAConnectionThatEndsWhileDeclarationsWaitLeavesNothingBehind(t *testing.T) {
	for name, end := range map[string]func(*peer){
		"the client is gone": func(p *peer) { _ = p.nc.Close() },
		"the client closes":  func(p *peer) { p.send(frame(0, &wire.ConnectionClose{})) },
		"the broker closes":  func(p *peer) { p.conn.Close("drain"); p.send(frame(0, &wire.ConnectionCloseOk{})) },
		"the client's fault": func(p *peer) { p.send(frame(7, &wire.BasicCancel{}), frame(0, &wire.ConnectionCloseOk{})) },
		"its channels closed": func(p *peer) {
			p.send(frame(1, &wire.ChannelClose{}), frame(2, &wire.ChannelClose{}))
			_ = p.nc.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var flow session.Flow
				p := connect(t, func(o *Options) { o.Flow = &flow; vacating(make(chan struct{}))(o) })
				p.open(0)
				p.send(frame(2, &wire.ChannelOpen{}))
				began := time.Now()
				for c := range uint16(2) {
					p.send(slices.Concat(declare(c+1, "mine"), ack(c+1, 1)))
				}
				end(p)
				<-p.served
				if waited := time.Since(began); waited > p.conn.opts.CloseTimeout {
					t.Errorf("it was served for %v more", waited)
				}
				if !flow.Hold(64<<20 - 1) {
					t.Error("bytes are still counted as held")
				}
				p.finish()
			})
		})
	}
}

func TestChannelsThatAreClosedWhileTheyWaitLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waiting := 0
		p := connect(t, func(o *Options) {
			o.Occupied = func(string, string) func(context.Context) {
				return func(ctx context.Context) { waiting++; <-ctx.Done(); waiting-- }
			}
		})
		p.open(0)
		for i := range 100 {
			p.send(declare(1, fmt.Sprint(i)), frame(1, &wire.ChannelClose{}))
			synctest.Wait()
			if waiting != 0 {
				t.Fatalf("%d waits of channels that are closed", waiting)
			}
			p.send(frame(1, &wire.ChannelOpen{}))
		}
		p.finish()
	})
}

func TestAConnectionIsClosedOnceAllItsWaitsAreOver(t *testing.T) {
	g := occupied(t, 1, 2)
	g.in(declare(1, "mine"), declare(2, "mine"), frame(0, &wire.ConnectionClose{}))
	want(t, "after the first", g.resume(g.waits[0]))
	want(t, "after the second", g.resume(g.waits[1]), "0 ConnectionCloseOk")
	want(t, "in all", g.commands(), declaredMine, strings.Replace(declaredMine, "Channel=1", "Channel=2", 1))
}

func TestADeclarationThatWaitedInVainSparesTheNextOpeningsNoWait(t *testing.T) {
	g := occupied(t, 1)
	g.in(declare(1, "mine"))
	g.tell(session.Event{Kind: core.EffectRefused, Channel: 1, Code: core.CodeNotFound, Text: "of an earlier command"})
	g.resume(g.waits[0])
	g.in(frame(1, &wire.ChannelCloseOk{}), frame(1, &wire.ChannelOpen{}))
	g.commands()
	g.in(declare(1, "mine"))
	want(t, "the new opening's declaration", g.commands())
}

func TestServeComesBackOnceNoWaitIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := false
		p := connect(t, func(o *Options) {
			o.Occupied = func(string, string) func(context.Context) {
				return func(ctx context.Context) { <-ctx.Done(); time.Sleep(time.Second); over = true }
			}
		})
		p.open(0)
		p.send(declare(1, "mine"))
		p.finish()
		<-p.served
		if !over {
			t.Error("a wait goes on")
		}
	})
}
