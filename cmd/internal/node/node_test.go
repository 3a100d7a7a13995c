package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/cmd/internal/alarm"
	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/certs/certstest"
	"github.com/understudy-mq/understudy/cmd/internal/config"
	"github.com/understudy-mq/understudy/cmd/loopback"
)

// patience bounds every wait of these tests.
const patience = 2 * time.Minute

// settings are those of a node with ports of its own and two data groups.
func settings(t *testing.T, id uint64) config.Config {
	t.Helper()
	c := config.Default()
	c.NodeID, c.Groups = id, 2
	c.Data = filepath.Join(t.TempDir(), fmt.Sprintf("n%d", id))
	c.AMQP, c.Admin, c.Link = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	c.Peer = loopback.Addresses(t, 1)[0]
	c.DiskFreeMin, c.LinkHoldDiskPercent = "0", 100 // whatever else fills the disk that the tests run on
	return c
}

func options(t *testing.T, c config.Config) Options {
	return Options{
		Config: c, Version: "test", Logger: slog.New(slog.DiscardHandler),
		Fatal:  func(err error) { t.Errorf("node %d: fatal: %v", c.NodeID, err) },
		Gauges: func() alarm.Reading { return well }, // whatever memory and disk the machine has
	}
}

func start(t *testing.T, c config.Config) *Node {
	t.Helper()
	return startWith(t, options(t, c))
}

// startWith starts a node that is stopped when the test ends, if it was not before.
func startWith(t *testing.T, o Options) *Node {
	t.Helper()
	n, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !n.draining.Load() {
			stop(t, n)
		}
	})
	return n
}

// ready waits until clients are served.
func ready(t *testing.T, nodes ...*Node) {
	t.Helper()
	for _, n := range nodes {
		select {
		case <-n.Started():
		case <-time.After(patience):
			t.Fatalf("node %d is not ready: %v", n.cfg.NodeID, n.Ready())
		}
	}
}

func stop(t *testing.T, n *Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		t.Errorf("stop of node %d: %v", n.cfg.NodeID, err)
	}
}

// address is where a node listens for a protocol.
func address(n *Node, protocol string) string {
	for _, l := range n.listeners {
		if l.protocol == protocol {
			return l.Addr().String()
		}
	}
	return ""
}

func dial(t *testing.T, n *Node) *amqp.Connection {
	t.Helper()
	c, err := amqp.Dial("amqp://guest:guest@" + address(n, protocolAMQP) + "/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// send publishes a message to a queue and waits for its confirm.
func send(t *testing.T, c *amqp.Connection, queue, body string) {
	t.Helper()
	ch, err := c.Channel()
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	confirm, err := ch.PublishWithDeferredConfirm("", queue, true, false, amqp.Publishing{Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if ok, err := confirm.WaitContext(ctx); err != nil || !ok {
		t.Fatalf("confirm %v, %v", ok, err)
	}
}

// take gets a message.
func take(t *testing.T, c *amqp.Connection, queue string) string {
	t.Helper()
	ch, err := c.Channel()
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	d, ok, err := ch.Get(queue, true)
	if err != nil || !ok {
		t.Fatalf("get from %s: %v, %v", queue, ok, err)
	}
	return string(d.Body)
}

// ask gets a path of a node's admin port as guest.
func ask(t *testing.T, n *Node, path string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http://"+address(n, protocolHTTP)+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth("guest", "guest")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(b)
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func TestANodeAloneServesAndKeepsWhatItConfirmedOverARestart(t *testing.T) {
	c := settings(t, 1)
	n := start(t, c)
	ready(t, n)
	id := n.ClusterID()
	client := dial(t, n)
	send(t, client, "q", "kept")
	stop(t, n)

	n = start(t, c)
	ready(t, n)
	if n.ClusterID() != id || id == "" {
		t.Errorf("cluster id %q, was %q", n.ClusterID(), id)
	}
	if got := take(t, dial(t, n), "q"); got != "kept" {
		t.Errorf("got %q, want kept", got)
	}
}

func TestTheAdminPortShowsWhatClientsMade(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	client := dial(t, n)
	send(t, client, "a queue/1", "x")
	ch, err := client.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.Consume("a queue/1", "tag", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	name := client.LocalAddr().String() + " -> " + client.RemoteAddr().String()
	for path, want := range map[string]string{
		"/health/ready":                     `"status":"ok"`,
		"/api/queues/%2F/a%20queue%2F1":     `"name":"a queue/1","vhost":"/"`,
		"/api/queues":                       `"consumers":1`,
		"/api/exchanges/%2F/amq.topic":      `"type":"topic"`,
		"/api/exchanges/%2F/amq.default":    `"type":"direct"`,
		"/api/bindings/%2F":                 `"destination":"a queue/1"`,
		"/api/consumers":                    `"connection_name":"` + name,
		"/api/connections":                  `"user":"guest"`,
		"/api/cluster":                      `"id":"` + n.ClusterID(),
		"/api/groups":                       `"role":"leader"`,
		"/api/nodes":                        `"running":true`,
		"/api/overview":                     `"queues":1`,
		"/api/vhosts":                       `"name":"/"`,
		"/metrics":                          "understudy_log_fsync_seconds_count",
		"/api/health/checks/virtual-hosts":  `"ok"`,
		"/debug/pprof/cmdline":              "",
		"/api/health/checks/local-alarms":   `"ok"`,
		"/api/connections/" + urlPath(name): `"name":"` + name,
	} {
		status, body := ask(t, n, path)
		if body = strings.ReplaceAll(body, `\u003e`, ">"); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("GET %s: %d %s\nwant 200 with %s", path, status, body, want)
		}
	}
}

func urlPath(s string) string { return strings.ReplaceAll(s, " ", "%20") }

func TestAClosedConnectionIsToldWhy(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	client := dial(t, n)
	closed := client.NotifyClose(make(chan *amqp.Error, 1))
	eventually(t, "the connection is listed", func() bool { return len(n.ownConnections()) == 1 })
	if there, err := n.CloseConnection(t.Context(), n.ownConnections()[0].Name, "for a test"); !there || err != nil {
		t.Fatalf("the connection was not closed: %v, %v", there, err)
	}
	wantClosed(t, closed, "for a test")
	if there, err := n.CloseConnection(t.Context(), "nobody", ""); there || err != nil {
		t.Errorf("a connection that is not there was closed: %v, %v", there, err)
	}
}

// wantClosed waits for connection.close with 320.
func wantClosed(t *testing.T, closed <-chan *amqp.Error, reason string) {
	t.Helper()
	select {
	case e := <-closed:
		if e == nil || e.Code != amqp.ConnectionForced || !strings.Contains(e.Reason, reason) {
			t.Errorf("closed with %v, want 320 and %q", e, reason)
		}
	case <-time.After(patience):
		t.Error("not closed")
	}
}

func TestADrainClosesClientsWith320AndIsNotReady(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	closed := dial(t, n).NotifyClose(make(chan *amqp.Error, 1))
	stop(t, n)
	wantClosed(t, closed, "stopped")
	if n.Ready() == nil {
		t.Error("a stopped node says that it is ready")
	}
}

func TestAPortInUseStopsTheStartAndGivesTheFolderBack(t *testing.T) {
	c := settings(t, 1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c.Admin = l.Addr().String()
	_, err = Start(context.Background(), options(t, c))
	wantError(t, err, "address already in use")
	openFolder(t, c.Data)
}

func TestANodeThatIsStillFormingIsNotReady(t *testing.T) {
	t.Parallel() // it waits for the most part
	c := settings(t, 1)
	c.Cluster = fmt.Sprintf("1=%s,2=%s", c.Peer, loopback.Addresses(t, 1)[0]) // node 2 never comes: no majority
	n := start(t, c)
	status, body := ask(t, n, "/health/ready")
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "not registered") {
		t.Errorf("%d %s, want 503", status, body)
	}
	if status, _ := ask(t, n, "/health/live"); status != http.StatusOK {
		t.Errorf("live: %d, want 200", status)
	}
}

func TestANodeJoinsARunningClusterAndIsPromoted(t *testing.T) {
	t.Parallel() // it waits for the most part
	first := start(t, settings(t, 1))
	ready(t, first)
	send(t, dial(t, first), "q", "before")

	c := settings(t, 2)
	c.Groups, c.Join = 7, "http://"+address(first, protocolHTTP) // the cluster has two groups; it decides
	second := start(t, c)
	ready(t, second)
	if second.ClusterID() != first.ClusterID() || len(second.groups) != len(first.groups) {
		t.Errorf("it is in cluster %s with %d groups, want %s with %d", second.ClusterID(), len(second.groups), first.ClusterID(), len(first.groups))
	}
	eventually(t, "node 2 is promoted", func() bool { return first.PromoteMember(context.Background(), 2) == nil })
	eventually(t, "node 2 knows that it is a voter", func() bool {
		members := second.Cluster().Members
		return len(members) == 2 && members[1].Role == "voter" && members[1].Address == c.Peer
	})
	if got := take(t, dial(t, second), "q"); got != "before" {
		t.Errorf("got %q through node 2, want before", got)
	}
	stop(t, second)
	second = start(t, c) // --join and --groups are ignored now
	ready(t, second)
	stop(t, second)
}

func TestAPeerAddressThatIsTakenIsNamedWithItsFlag(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	c := settings(t, 1)
	c.Peer = taken.Addr().String()
	_, err = Start(context.Background(), options(t, c))
	wantError(t, err, "--peer: listen tcp "+c.Peer, "give another address")
}

func TestANodeIDThatTheClusterHasIsRefusedToJoin(t *testing.T) {
	first := start(t, settings(t, 1))
	ready(t, first)
	c := settings(t, 1)
	c.Join = "http://" + address(first, protocolHTTP)
	_, err := Start(context.Background(), options(t, c))
	wantError(t, err, "has a node 1 already", "choose another --node-id")
}

func TestASurvivorBecomesAClusterOfItsOwn(t *testing.T) {
	t.Parallel() // it waits for the most part
	settingsOf := []config.Config{settings(t, 1), settings(t, 2)}
	cluster := fmt.Sprintf("1=%s,2=%s", settingsOf[0].Peer, settingsOf[1].Peer)
	var nodes []*Node
	for i := range settingsOf {
		settingsOf[i].Cluster = cluster
		nodes = append(nodes, start(t, settingsOf[i]))
	}
	ready(t, nodes...)
	former := nodes[0].ClusterID()
	send(t, dial(t, nodes[0]), "q", "kept")
	_, err := ForceNewCluster(context.Background(), options(t, settingsOf[1]))
	wantError(t, err, "in use by another process")
	stop(t, nodes[0])
	stop(t, nodes[1])

	r, err := ForceNewCluster(context.Background(), options(t, settingsOf[1]))
	if err != nil {
		t.Fatal(err)
	}
	if r.Former != former || r.ClusterID == former || len(r.Groups) != 3 {
		t.Errorf("recovered %+v, former id %s", r, former)
	}
	n := start(t, settingsOf[1])
	ready(t, n)
	if n.ClusterID() != r.ClusterID || len(n.Cluster().Members) != 1 {
		t.Errorf("cluster %s with members %v, want %s and one", n.ClusterID(), n.Cluster().Members, r.ClusterID)
	}
	if got := take(t, dial(t, n), "q"); got != "kept" {
		t.Errorf("got %q, want kept", got)
	}
	third := settings(t, 3) // the log that it gets still has the former id in it
	third.Join = "http://" + address(n, protocolHTTP)
	ready(t, start(t, third))
}

func TestRecoveryOfAnEmptyFolderIsRefused(t *testing.T) {
	_, err := ForceNewCluster(context.Background(), options(t, settings(t, 1)))
	wantError(t, err, "no node's data folder")
}

func TestAStopEndsWithItsTime(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if err := n.Stop(over); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("stop: %v", err)
	}
	eventually(t, "the folder is given back", func() bool { // what was not done in time is done all the same
		f, err := OpenFolder(nil, n.cfg.Data)
		return err == nil && f.Close() == nil
	})
}

func TestClientsAndNodesSpeakTLS(t *testing.T) {
	t.Parallel() // it waits for the most part
	authority := certstest.New(t)
	files, _ := authority.Issue("node")
	both := []config.Config{settings(t, 1), settings(t, 2)}
	var nodes []*Node
	for _, c := range both {
		c.Cluster = fmt.Sprintf("1=%s,2=%s", both[0].Peer, both[1].Peer)
		c.AMQPS, c.TLSCert, c.TLSKey = "127.0.0.1:0", files.Cert, files.Key
		c.PeerTLSCert, c.PeerTLSKey, c.PeerTLSCA = files.Cert, files.Key, files.CA
		nodes = append(nodes, start(t, c))
	}
	ready(t, nodes...)
	client, err := amqp.DialTLS("amqps://guest:guest@"+address(nodes[0], protocolAMQPS)+"/",
		&tls.Config{RootCAs: authority.Pool(), ServerName: "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	send(t, client, "q", "secret")
	if got := nodes[0].ownConnections(); len(got) != 1 || !got[0].SSL {
		t.Errorf("connections %+v, want one with TLS", got)
	}
	if _, err := tls.Dial("tcp", both[0].Peer, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}); err == nil {
		t.Error("a peer with an old TLS was let in")
	}
}

func TestUnusableCertificatesStopTheStart(t *testing.T) {
	c := settings(t, 1)
	c.AMQPS, c.TLSCert, c.TLSKey = "127.0.0.1:0", "/no/such/cert", "/no/such/key"
	_, err := Start(context.Background(), options(t, c))
	wantError(t, err, "/no/such/cert")
	openFolder(t, c.Data)
}

// queuesOf lists a vhost's queues.
func queuesOf(n *Node, vhost string) (rows []api.Queue) {
	for _, row := range n.QueuesAt(n.QueueRefs(vhost)) {
		rows = append(rows, row)
	}
	return rows
}
