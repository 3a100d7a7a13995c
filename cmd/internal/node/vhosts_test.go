package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/audit"
	"github.com/understudy-mq/understudy/cmd/internal/config"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
)

// dialVhost connects as guest to a vhost.
func dialVhost(n *Node, vhost string) (*amqp.Connection, error) {
	return amqp.DialConfig("amqp://"+address(n, protocolAMQP), amqp.Config{
		Vhost: vhost, SASL: []amqp.Authentication{&amqp.PlainAuth{Username: "guest", Password: "guest"}},
	})
}

func inVhost(t *testing.T, n *Node, vhost string) *amqp.Connection {
	t.Helper()
	c, err := dialVhost(n, vhost)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func vhostPath(name string) string { return "/api/vhosts/" + url.PathEscape(name) }

func vhostOf(t *testing.T, n *Node, name string) (v api.Vhost) {
	t.Helper()
	if status, body := ask(t, n, vhostPath(name)); status != 200 || json.Unmarshal([]byte(body), &v) != nil {
		t.Fatalf("vhost %q: %d %s", name, status, body)
	}
	return v
}

func TestAVhostIsMadeUsedAndDeleted(t *testing.T) {
	c := settings(t, 1)
	n := start(t, c)
	ready(t, n)
	for _, name := range []string{"plain", `a/b "quoted" ä`, strings.Repeat("ü", 127) + "x", "..", "100%"} {
		if _, err := dialVhost(n, name); err == nil {
			t.Errorf("%q is there before it was made", name)
		}
		adminCall(t, n, "PUT", vhostPath(name), `{"description":"d","tags":["x","y"]}`, 201)
		adminCall(t, n, "PUT", vhostPath(name), `{"tags":"z"}`, 204)
		send(t, inVhost(t, n, name), "q", name)
		if got := take(t, inVhost(t, n, name), "q"); got != name {
			t.Errorf("%q holds %q", name, got)
		}
		if v := vhostOf(t, n, name); v.Name != name || v.Description != "d" || len(v.Tags) != 1 || v.ClusterState[n.Name()] != "running" {
			t.Errorf("%q is listed as %+v", name, v)
		}
		adminCall(t, n, "GET", vhostPath(name)+"/permissions", "", 200)
		adminCall(t, n, "GET", "/api/queues/"+url.PathEscape(name)+"/q", "", 200)
	}
	for name, body := range map[string]string{strings.Repeat("x", 256): "", "a\x00b": "", "\xff": "", "s": `{"default_queue_type":"stream"}`} {
		adminCall(t, n, "PUT", vhostPath(name), body, 400)
	}
	first := vhostOf(t, n, "plain")
	client := inVhost(t, n, "plain")
	send(t, client, "q", "gone")
	closed := client.NotifyClose(make(chan *amqp.Error, 1))
	adminCall(t, n, "DELETE", vhostPath("plain"), "", 204)
	wantClosed(t, closed, "CONNECTION_FORCED - vhost 'plain' is deleted")
	adminCall(t, n, "DELETE", vhostPath("plain"), "", 404)
	adminCall(t, n, "GET", vhostPath("plain"), "", 404)
	_, err := dialVhost(n, "plain")
	wantReply(t, "open", err, 530, "NOT_ALLOWED - vhost plain not found")

	newUser(t, n, "other", ".*", ".*", ".*")
	adminCall(t, n, "PUT", vhostPath("plain"), "", 201)
	if v := vhostOf(t, n, "plain"); v.ID == first.ID || v.Description != "" {
		t.Errorf("made anew it is %+v, was %+v", v, first)
	}
	if _, err := inspect(inVhost(t, n, "plain"), "q"); err == nil {
		t.Error("made anew it has the old queue")
	}
	record, err := os.ReadFile(filepath.Join(c.Data, audit.Name))
	for _, want := range []string{`"event":"vhost_put"`, `"event":"vhost_deleted"`} {
		if err != nil || !strings.Contains(string(record), want) {
			t.Errorf("the audit record lacks %s (%v)", want, err)
		}
	}
}

// inspect declares a queue passively.
func inspect(c *amqp.Connection, queue string) (amqp.Queue, error) {
	ch, err := c.Channel()
	if err != nil {
		return amqp.Queue{}, err
	}
	return ch.QueueDeclarePassive(queue, true, false, false, false, nil)
}

func TestADeletedVhostTakesItsPermissionsAlong(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	adminCall(t, n, "PUT", vhostPath("v"), "", 201)
	newUser(t, n, "app", ".*", ".*", ".*")
	adminCall(t, n, "PUT", "/api/permissions/v/app", `{"configure":".*","write":".*","read":".*"}`, 201)
	adminCall(t, n, "PUT", "/api/topic-permissions/v/app", `{"exchange":"amq.topic","write":".*","read":".*"}`, 201)
	adminCall(t, n, "DELETE", vhostPath("v"), "", 204)
	adminCall(t, n, "PUT", vhostPath("v"), "", 201)
	for _, path := range []string{"/api/permissions", "/api/topic-permissions"} {
		if _, body := ask(t, n, path); strings.Contains(body, `"user":"app","vhost":"v"`) {
			t.Errorf("%s still has %s", path, body)
		}
	}
	adminCall(t, n, "PUT", "/api/permissions/none/app", `{"configure":"","write":"","read":""}`, 404)
}

func TestTheFirstVhostMayBeDeletedForGood(t *testing.T) {
	c := settings(t, 1)
	n := start(t, c)
	ready(t, n)
	adminCall(t, n, "DELETE", vhostPath("/"), "", 204)
	stop(t, n)
	n = start(t, c)
	ready(t, n)
	adminCall(t, n, "GET", vhostPath("/"), "", 404)
}

func TestVhostsSpreadOverTheGroups(t *testing.T) {
	n := start(t, settings(t, 1)) // "/" is in group 1
	ready(t, n)
	for i, want := range []uint64{2, 1, 2} {
		name := fmt.Sprint("v", i)
		adminCall(t, n, "PUT", vhostPath(name), "", 201)
		if v := vhostOf(t, n, name); v.Group != want {
			t.Errorf("%s is in group %d, want %d", name, v.Group, want)
		}
	}
}

// What a node leaves half done when it dies is finished after its next start.
func TestVhostsLeftHalfDoneAreFinishedAfterARestart(t *testing.T) {
	t.Parallel() // it waits for the most part
	put := entry.VhostPut{ID: uuid.NewString(), Name: "v", Groups: 2}
	putting := func(request uint64) entry.Command { p := put; p.Request = request; return &p }
	burying := func(request uint64) entry.Command { return &entry.VhostBury{Request: request, ID: put.ID} }
	create := &entry.VhostCreate{ID: put.ID, Name: "v"}
	for name, point := range map[string]struct {
		before func(n *Node)
		serves bool
	}{
		"registered, not made": {func(n *Node) { propose(t, n, putting) }, true},
		"made, not registered": {func(n *Node) { force(t, n, 1, create) }, true},
		"buried, not deleted": {func(n *Node) {
			propose(t, n, putting)
			force(t, n, 2, create)
			propose(t, n, burying)
		}, false},
		"buried, made late": {func(n *Node) {
			propose(t, n, putting)
			propose(t, n, burying)
			force(t, n, 2, create)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := settings(t, 1)
			n := start(t, c)
			ready(t, n)
			point.before(n)
			stop(t, n)
			n = start(t, c)
			ready(t, n)
			eventually(t, "the groups agree", func() bool {
				held := false
				for _, list := range n.held() {
					for _, h := range list {
						held = held || h.ID == put.ID
					}
				}
				return n.HasVhost("v") == point.serves && held == point.serves
			})
			if point.serves {
				permitIn(t, n, "v")
				send(t, inVhost(t, n, "v"), "q", "x")
			}
		})
	}
}

// permitIn lets guest do everything in a vhost that others made.
func permitIn(t *testing.T, n *Node, vhost string) {
	t.Helper()
	status, text := request(t, n, "guest:guest", "PUT", "/api/permissions/"+url.PathEscape(vhost)+"/guest", `{"configure":".*","write":".*","read":".*"}`)
	if status/100 != 2 {
		t.Fatalf("permission: %d %s", status, text)
	}
}

// propose has the system group carry out a command, and nothing come of it.
func propose(t *testing.T, n *Node, command func(uint64) entry.Command) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := n.accounts.propose(ctx, command); err != nil {
		t.Fatal(err)
	}
}

// force has a data group make a vhost.
func force(t *testing.T, n *Node, group uint64, cmd *entry.VhostCreate) {
	t.Helper()
	err := n.controlGroup(context.Background(), group, cmd, func(m *core.Machine) bool {
		_, is := m.HeldVhost(cmd.ID)
		return is
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A data folder from before the system group knew of vhosts goes on.
func TestAVhostOfAnOlderFolderIsKept(t *testing.T) {
	c := settings(t, 1)
	folder, err := OpenFolder(nil, c.Data)
	if err != nil {
		t.Fatal(err)
	}
	old := newNode(options(t, c), folder)
	old.accounts.changed = func() {}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, step := range []func() error{
		func() error { return old.claim(ctx, nil) }, old.openAudit, old.openStore, old.openClients, func() error { return old.startRaft("") },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	id, user := uuid.NewString(), old.firstUser()
	eventually(t, "the older version's first start", func() bool {
		_ = old.raft.Group(systemGroup).Control(entry.Append(entry.Append(nil, &entry.ClusterInit{ID: uuid.NewString()}), user))
		_ = old.raft.Group(1).Control(entry.Append(nil, &entry.VhostCreate{ID: id, Name: "/"}))
		held, _ := old.heldFirst()
		return old.hasUsers() && held.ID == id
	})
	if err := old.raft.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if err := old.release(); err != nil {
		t.Fatal(err)
	}
	n := start(t, c)
	ready(t, n)
	if v := vhostOf(t, n, "/"); v.ID != id || v.Group != 1 {
		t.Errorf("the first vhost is %+v, was %s", v, id)
	}
	send(t, dial(t, n), "q", "x")
}

func TestEveryNodeKnowsOfAVhostAndAnyNodeDeletesIt(t *testing.T) {
	t.Parallel() // it waits for the most part
	both := []config.Config{settings(t, 1), settings(t, 2)}
	var nodes []*Node
	for _, c := range both {
		c.Cluster = fmt.Sprintf("1=%s,2=%s", both[0].Peer, both[1].Peer)
		nodes = append(nodes, start(t, c))
	}
	ready(t, nodes...)
	adminCall(t, nodes[0], "PUT", vhostPath("v"), "", 201)
	var client *amqp.Connection
	eventually(t, "node 2 serves it", func() (ok bool) {
		c, err := dialVhost(nodes[1], "v")
		client = c
		return err == nil
	})
	closed := client.NotifyClose(make(chan *amqp.Error, 1))
	adminCall(t, nodes[0], "DELETE", vhostPath("v"), "", 204)
	wantClosed(t, closed, "vhost 'v' is deleted")
	eventually(t, "node 2 knows that it is gone", func() bool { status, _ := ask(t, nodes[1], vhostPath("v")); return status == 404 })
	adminCall(t, nodes[1], "PUT", vhostPath("v"), "", 201)
	inVhost(t, nodes[1], "v")
}
