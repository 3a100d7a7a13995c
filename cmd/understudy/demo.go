package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/cobra"

	"github.com/understudy-mq/understudy/cmd/loopback"
	"github.com/understudy-mq/understudy/session/resume"
)

const (
	demoTimeout = 110 * time.Second
	demoQueue   = "demo"
	demoBefore  = 2000 // messages confirmed before the source is killed
	demoAfter   = 1000 // and after the promotion
	// demoBacklog is how far the consumer lies behind the publisher, so that it never takes what the standby may not have yet:
	// a message that is published again because it was lost is new to the broker.
	demoBacklog = 1000
	demoWork    = time.Millisecond // what the consumer does with a message
)

func demoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the whole story on this machine: a cluster dies, its standby takes over, a session goes on",
		Long: `Start a source of three nodes and a standby on free loopback ports, with data in a temporary folder. A client with a
session publishes and consumes. Then every node of the source is killed at once, the standby is promoted, and the client
goes on. The account at the end says what became of each message. Takes less than two minutes, and removes what it made.`,
		Args: arguments(cobra.NoArgs),
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		interruptible, over := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer over()
		ctx, cancel := context.WithTimeout(interruptible, demoTimeout)
		defer cancel()
		dir, err := os.MkdirTemp("", "understudy-demo-")
		if err != nil {
			return err
		}
		held, err := loopback.Hold(4 * 4)
		if err != nil {
			return errors.Join(err, os.Remove(dir))
		}
		defer held.Release()
		d := &demo{dir: dir, addresses: held.Addresses, out: cmd.OutOrStdout(), seen: map[string]int{}}
		err = d.run(ctx)
		d.stop()
		if err != nil && interruptible.Err() != nil {
			err = errors.New("interrupted: what it made is removed")
		}
		return errors.Join(err, os.RemoveAll(dir))
	}
	return cmd
}

// demo is a source, a standby and a client.
type demo struct {
	dir       string
	addresses []string // four for each node
	out       io.Writer
	source    []*demoNode
	other     []*demoNode

	published, confirmed atomic.Int64
	resumed              atomic.Bool
	mu                   sync.Mutex
	seen                 map[string]int // deliveries that were not marked as redelivered, by message
	all                  map[string]bool
}

// demoNode is a process of this program's.
type demoNode struct {
	amqp, admin, peer, link string
	cmd                     *exec.Cmd
	ended                   chan struct{} // closed when the process has gone
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }

func (d *demo) run(ctx context.Context) error {
	d.all = map[string]bool{}
	if err := d.start(ctx); err != nil {
		return err
	}
	d.say("a source of three nodes and its standby are up")
	s, err := resume.Dial(ctx, d.options())
	if err != nil {
		return err
	}
	work, stop := context.WithCancel(ctx)
	defer stop()
	var clients sync.WaitGroup
	clients.Go(func() { d.publish(work, s) })
	if err := d.await(ctx, "there is a backlog", func() bool { return d.confirmed.Load() >= demoBacklog }); err != nil {
		return err
	}
	clients.Go(func() { d.consume(work, s) })
	if err := d.await(ctx, "messages are confirmed", func() bool { return d.confirmed.Load() >= demoBefore }); err != nil {
		return err
	}
	d.say("%d messages are confirmed; the three nodes of the source are killed now", d.confirmed.Load())
	for _, n := range d.source {
		_ = n.cmd.Process.Signal(syscall.SIGKILL)
	}
	before := time.Now()
	report, err := d.promote(ctx)
	if err != nil {
		return err
	}
	d.say("the standby is promoted after %v; what it says may be missing: %s", time.Since(before).Round(time.Millisecond), report)
	confirmed := d.confirmed.Load()
	if err := d.await(ctx, "the client goes on", func() bool { return d.confirmed.Load() >= confirmed+demoAfter }); err != nil {
		return err
	}
	d.say("the client goes on after %v", time.Since(before).Round(time.Millisecond))
	stop()
	clients.Wait()
	return d.account(ctx, s)
}

// account waits for the last deliveries and says what became of the messages.
func (d *demo) account(ctx context.Context, s *resume.Session) error {
	rest, cancel := context.WithCancel(ctx)
	defer cancel()
	var wait sync.WaitGroup
	wait.Go(func() { d.consume(rest, s) })
	_ = d.await(ctx, "everything is consumed", func() bool { return d.missing() == 0 })
	cancel()
	wait.Wait()
	_ = s.Close(ctx)
	d.mu.Lock()
	doubled := 0
	for _, n := range d.seen {
		if n > 1 {
			doubled++
		}
	}
	consumed := len(d.seen)
	d.mu.Unlock()
	lost := d.missing()
	d.say("\npublished %d, confirmed %d, consumed %d, lost %d, doubled %d, session resumed: %v",
		d.published.Load(), d.confirmed.Load(), consumed, lost, doubled, d.resumed.Load())
	if lost > 0 || doubled > 0 || !d.resumed.Load() {
		return errors.New("the account is not what was promised")
	}
	return nil
}

// missing counts confirmed messages that were not consumed.
func (d *demo) missing() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.all {
		if d.seen[id] == 0 {
			n++
		}
	}
	return n
}

func (d *demo) options() resume.Options {
	o := resume.Options{
		Setup: func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(demoQueue, true, false, false, false, nil)
			return err
		},
		Events: func(e resume.Event) {
			switch e.Kind {
			case resume.Resumed, resume.Promoted:
				d.resumed.Store(true)
				d.say("  client: session %s at %s", e.Kind, e.Address)
			case resume.Lost:
				d.say("  client: connection lost")
			}
		},
	}
	for _, n := range append(append([]*demoNode{}, d.source...), d.other...) {
		o.URLs = append(o.URLs, "amqp://guest:guest@"+n.amqp+"/")
	}
	return o
}

func (d *demo) publish(ctx context.Context, s *resume.Session) {
	p, err := s.Publisher(ctx)
	if err != nil {
		return
	}
	var receipts sync.WaitGroup
	for i := 0; ctx.Err() == nil; i++ {
		id := fmt.Sprint("message ", i)
		r, err := p.Publish(ctx, "", demoQueue, false, amqp.Publishing{MessageId: id, Body: []byte(id)})
		if err != nil {
			break
		}
		d.published.Add(1)
		receipts.Go(func() {
			if r.Wait(context.WithoutCancel(ctx)) == nil {
				d.confirmed.Add(1)
				d.mu.Lock()
				d.all[id] = true
				d.mu.Unlock()
			}
		})
		time.Sleep(time.Millisecond)
	}
	receipts.Wait()
}

func (d *demo) consume(ctx context.Context, s *resume.Session) {
	c, err := s.Consume(ctx, demoQueue, resume.ConsumeOptions{})
	if err != nil {
		return
	}
	defer c.Close()
	for {
		select {
		case m, ok := <-c.Deliveries():
			if !ok {
				return
			}
			d.mu.Lock()
			if d.seen[m.MessageId] == 0 || !m.Redelivered {
				d.seen[m.MessageId]++
			}
			d.mu.Unlock()
			time.Sleep(demoWork)
			_ = m.Ack(false)
		case <-ctx.Done():
			return
		}
	}
}

// start starts the nodes and waits until they are ready and the standby follows.
func (d *demo) start(ctx context.Context) error {
	token := filepath.Join(d.dir, "token")
	if err := os.WriteFile(token, []byte("the demo's link token\n"), 0o600); err != nil {
		return err
	}
	var members, links []string
	for i := range 4 {
		n := &demoNode{}
		for j, a := range []*string{&n.amqp, &n.admin, &n.peer, &n.link} {
			*a = d.addresses[4*i+j]
		}
		if i == 3 {
			d.other = append(d.other, n)
			continue
		}
		d.source = append(d.source, n)
		members, links = append(members, fmt.Sprintf("%d=%s", i+1, n.peer)), append(links, n.link)
	}
	return d.launch(ctx, token, strings.Join(members, ","), strings.Join(links, ","))
}

func (d *demo) launch(ctx context.Context, token, members, links string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	for i, n := range append(append([]*demoNode{}, d.source...), d.other...) {
		args := []string{"serve", "--data", filepath.Join(d.dir, fmt.Sprint("node", i+1)), "--amqp", n.amqp, "--admin", n.admin, "--peer", n.peer}
		if i < len(d.source) {
			args = append(args, "--node-id", fmt.Sprint(i+1), "--cluster", members, "--link", n.link,
				"--link-serve-token-file", token, "--link-fence-token-file", token)
		} else {
			args = append(args, "--standby", "--link-source", links, "--link-token-file", token)
		}
		n.cmd = exec.Command(program, args...)
		n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := n.start(); err != nil {
			return err
		}
	}
	return d.await(ctx, "the standby follows", func() bool {
		for _, n := range d.source {
			if get(ctx, n.admin, "/health/ready", nil) != nil {
				return false
			}
		}
		var l struct {
			Groups []struct{ State string }
		}
		if get(ctx, d.other[0].admin, "/api/link", &l) != nil || len(l.Groups) == 0 {
			return false
		}
		for _, g := range l.Groups {
			if g.State != "following" {
				return false
			}
		}
		return true
	})
}

func (n *demoNode) start() error {
	if err := n.cmd.Start(); err != nil {
		return err
	}
	n.ended = make(chan struct{})
	go func() {
		_ = n.cmd.Wait()
		close(n.ended)
	}()
	return nil
}

func get(ctx context.Context, address, path string, v any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return err
	}
	r.SetBasicAuth("guest", "guest")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	if v == nil {
		return nil
	}
	return json.NewDecoder(answer.Body).Decode(v)
}

// promote has the standby promoted and answers what its report says may be missing.
func (d *demo) promote(ctx context.Context) (string, error) {
	c := &client{url: "http://" + d.other[0].admin, user: "guest:guest", out: io.Discard, patience: demoTimeout}
	b, err := c.do(http.MethodPost, "/api/link/promote", nil)
	if err != nil {
		return "", err
	}
	var p struct {
		Groups []struct {
			MissingSince *int64 `json:"missing_since"`
		} `json:"groups"`
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return "", err
	}
	for _, g := range p.Groups {
		if g.MissingSince != nil {
			return "what was confirmed after " + moment(*g.MissingSince), nil
		}
	}
	return "not known", ctx.Err()
}

func (d *demo) await(ctx context.Context, what string, is func() bool) error {
	for !is() {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("never: %s: %w", what, ctx.Err())
		}
	}
	return nil
}

// stop ends what runs. Who returns from it may remove the folders.
func (d *demo) stop() {
	for _, n := range append(append([]*demoNode{}, d.source...), d.other...) {
		if n.ended != nil {
			_ = n.cmd.Process.Signal(syscall.SIGKILL)
			<-n.ended
		}
	}
}
