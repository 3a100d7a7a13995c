package node

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/cmd/internal/admin"
	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/certs/certstest"
	"github.com/understudy-mq/understudy/cmd/internal/config"
	"github.com/understudy-mq/understudy/cmd/loopback"
	"github.com/understudy-mq/understudy/core/entry"
)

// pair are the settings of a source and of its standby, a node each.
func pair(t *testing.T) (source, standby config.Config) {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	source, standby = settings(t, 1), settings(t, 1)
	source.Link = loopback.Addresses(t, 1)[0]
	source.LinkServeTokenFile, source.LinkFenceTokenFile = token, token
	standby.Data = filepath.Join(t.TempDir(), "standby")
	standby.LinkSource, standby.LinkTokenFile, standby.Standby = source.Link, token, true
	return source, standby
}

// follows waits until the standby has replayed all that the source has applied.
func follows(t *testing.T, source, standby *Node) {
	t.Helper()
	eventually(t, "the standby has everything", func() bool {
		for _, g := range source.groups {
			applied, _ := source.states[g].Applied()
			if standby.linkState(g).Position.Index != applied {
				return false
			}
			if standby.states[g].Fingerprint() != source.states[g].Fingerprint() {
				return false
			}
		}
		return true
	})
}

// A standby's node that let itself be called ready just before it took note of the cluster's id asked no source node, and the groups
// that it led were attached to none, until it was restarted.
func TestAStandbyThatHasNotTakenNoteOfItsClustersIDIsNotReady(t *testing.T) {
	_, to := pair(t)
	standby := start(t, to)
	ready(t, standby)
	standby.clusterID.Store(new(""))
	if standby.Ready() == nil {
		t.Error("it is ready, and does not know whose it is")
	}
	if err := standby.learn(); err != nil || standby.Ready() != nil {
		t.Errorf("once it has taken note: %v, %v", err, standby.Ready())
	}
}

func TestAStandbyTakesOverWhatItsSourceHad(t *testing.T) {
	from, to := pair(t)
	source, standby := start(t, from), start(t, to)
	ready(t, source, standby)
	c := dial(t, source)
	send(t, c, "work", "before")
	follows(t, source, standby)
	if r := standby.Link(); r.Role != "standby" || r.Source != source.ClusterID() {
		t.Errorf("%+v", r)
	}
	if readers := source.Link().Readers; len(readers) != 1 || readers[0].Standby != standby.ClusterID() {
		t.Errorf("readers %+v", readers)
	}
	eventually(t, "the standby counts the session", func() bool { return standby.liveSessions()[1]+standby.liveSessions()[2] > 0 })
	eventually(t, "the standby knows since when it may lack something", func() bool {
		return !slices.ContainsFunc(standby.Link().Groups, func(g api.LinkGroup) bool { return g.CompleteAge == nil })
	})
	stop(t, source)
	p, err := standby.Promote(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if p.Generation != 1 || p.Source != source.ClusterID() || len(p.Groups) != len(standby.groups) || p.Groups[0].MissingSince == nil {
		t.Errorf("report %+v", p)
	}
	c = dial(t, standby)
	if body := take(t, c, "work"); body != "before" {
		t.Errorf("got %q", body)
	}
	send(t, c, "work", "after")
	if body := take(t, c, "work"); body != "after" {
		t.Errorf("got %q", body)
	}
	if again, err := standby.Promote(t.Context()); err != nil || again.At != p.At {
		t.Errorf("promoted again: %+v, %v", again, err)
	}
}

func TestClientsOfAStandbyAreToldAtOpenAndMayComeBackAfterThePromotion(t *testing.T) {
	from, to := pair(t)
	source, standby := start(t, from), start(t, to)
	ready(t, source, standby)
	follows(t, source, standby)
	_, err := amqp.Dial("amqp://guest:guest@" + address(standby, protocolAMQP) + "/")
	var closed *amqp.Error
	if !errors.As(err, &closed) || closed.Code != amqp.ConnectionForced || !strings.Contains(closed.Reason, standbyReason) {
		t.Fatalf("dialled a standby: %v", err)
	}
	eventually(t, "the standby knows the vhost", func() bool { _, ok := standby.vhostHome("/"); return ok })
	for what, change := range map[string]func() error{
		"a limit": func() error { return standby.SetVhostLimit(t.Context(), "guest", "/", "max-queues", 5) },
		"a user": func() error {
			return standby.accounts.PutUser(t.Context(), "guest", "bob", api.NewUser{Password: new("b"), Tags: &api.Tags{}})
		},
		"a purge": func() error { return standby.PurgeQueue(t.Context(), "guest", "/", "work") },
		"a vhost": func() error {
			_, err := standby.PutVhost(t.Context(), "guest", "v", api.NewVhost{})
			return err
		},
	} {
		if err := change(); !errors.As(err, new(admin.Unavailable)) || !strings.Contains(err.Error(), standbyReason) {
			t.Errorf("%s on a standby: %v", what, err)
		}
	}
	if _, err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	send(t, dial(t, standby), "work", "after")
}

func TestOnlyAStandbyIsPromoted(t *testing.T) {
	from, _ := pair(t)
	n := start(t, from)
	ready(t, n)
	if _, err := n.Promote(t.Context()); !errors.As(err, new(admin.Conflict)) {
		t.Errorf("promoting a cluster that was never a standby: %v", err)
	}
}

// Standby stays set for good: it is of no effect on a cluster that has entries of its own, or was promoted.
func TestAClusterWithADataOfItsOwnDoesNotBecomeAStandby(t *testing.T) {
	from, to := pair(t)
	source := start(t, from)
	ready(t, source)
	to.Standby, to.LinkSource = false, ""
	n := start(t, to)
	ready(t, n)
	send(t, dial(t, n), "mine", "kept")
	stop(t, n)
	to.Standby, to.LinkSource = true, from.Link
	n = start(t, to)
	ready(t, n)
	if r := n.Link().Role; r != "primary" {
		t.Errorf("role %s", r)
	}
	if body := take(t, dial(t, n), "mine"); body != "kept" {
		t.Errorf("got %q", body)
	}
}

func TestAPromotedClusterStaysPromotedOverARestart(t *testing.T) {
	from, to := pair(t)
	source, standby := start(t, from), start(t, to)
	ready(t, source, standby)
	follows(t, source, standby)
	p, err := standby.Promote(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	send(t, dial(t, standby), "work", "after")
	stop(t, standby)
	standby = start(t, to)
	ready(t, standby)
	if body := take(t, dial(t, standby), "work"); body != "after" {
		t.Errorf("got %q", body)
	}
	if again, ok := standby.Promotion(); !ok || again.At != p.At {
		t.Errorf("the report is now %+v", again)
	}
}

func TestAStandbyGoesOnAfterARestartOfEitherSide(t *testing.T) {
	from, to := pair(t)
	source, standby := start(t, from), start(t, to)
	ready(t, source, standby)
	send(t, dial(t, source), "work", "one")
	follows(t, source, standby)
	stop(t, standby)
	send(t, dial(t, source), "work", "two")
	standby = start(t, to)
	follows(t, source, standby)
	stop(t, source)
	source = start(t, from)
	ready(t, source)
	send(t, dial(t, source), "work", "three")
	follows(t, source, standby)
}

func TestAFormerSourceIsFencedOnceItCanBeReached(t *testing.T) {
	from, to := pair(t)
	source, standby := start(t, from), start(t, to)
	ready(t, source, standby)
	follows(t, source, standby)
	c := dial(t, source)
	closed := c.NotifyClose(make(chan *amqp.Error, 1))
	if _, err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantClosed(t, closed, "another cluster was promoted in this one's place")
	eventually(t, "the source says that it is fenced", func() bool { return source.Link().Fenced })
	eventually(t, "the promoted cluster knows", func() bool { return !standby.Link().SplitBrain })
	_, err := amqp.Dial("amqp://guest:guest@" + address(source, protocolAMQP) + "/")
	var refused *amqp.Error
	if !errors.As(err, &refused) || refused.Code != amqp.ConnectionForced || !strings.Contains(refused.Reason, address(standby, protocolAMQP)) {
		t.Errorf("dialled a fenced source: %v", err)
	}
	if s := standby.Link().Sources; len(s) != 1 || !s[0].Fenced || s[0].Error != "" {
		t.Errorf("the promoted cluster says of its former source's nodes: %+v", s)
	}
	stop(t, source)
	stop(t, standby)
	standby = start(t, to) // it remembers, though nobody can tell it again
	ready(t, standby)
	eventually(t, "the promoted cluster has tried to tell its source", func() bool { return standby.Link().Sources[0].Error != "" })
	if l := standby.Link(); l.SplitBrain {
		t.Errorf("a source that had confirmed its fence is suspected to serve: %s", l.SplitBrainReason)
	}
}

// A former source that was made a standby, or anything else, is no more: nobody will ever confirm its fence.
func TestAFormerSourceThatIsAnotherClusterNowIsNotSuspectedToServe(t *testing.T) {
	from, to := pair(t)
	source, standby := start(t, from), start(t, to)
	ready(t, source, standby)
	follows(t, source, standby)
	stop(t, source)
	if _, err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "two clusters may serve", func() bool { return standby.Link().SplitBrain })
	from.Data = filepath.Join(t.TempDir(), "anew")
	other := start(t, from)
	ready(t, other)
	eventually(t, "the former source is no more", func() bool { return !standby.Link().SplitBrain })
	if other.Link().Fenced || other.Link().SplitBrain {
		t.Errorf("the cluster in its place is taken for it: %+v", other.Link())
	}
}

// Its source is told them at a switch, when it is too late to ask around.
func TestAStandbyKnowsWhereItsClientsWillFindIt(t *testing.T) {
	from, to := pair(t)
	source, standby := start(t, from), start(t, to)
	ready(t, source, standby)
	want := address(standby, protocolAMQP)
	eventually(t, "the standby knows its address", func() bool { return slices.Equal(standbyCluster{standby}.Hosts(), []string{want}) })
}

// Groups are fenced one after the other, the system group first; one without a leader comes late. Until the last is, the node does not
// say that it is fenced, and it lets nobody into those that are not.
func TestAClusterThatIsBeingFencedLetsNobodyInAndSaysSoOnlyOnceEveryGroupIs(t *testing.T) {
	from, _ := pair(t)
	source := start(t, from)
	ready(t, source)
	dial(t, source)
	fence := func(groups ...uint64) {
		for _, g := range groups {
			command := &entry.LinkFence{Cluster: source.ClusterID(), Switch: "s", Hosts: "elsewhere:5672"}
			if err := source.raft.Group(g).ControlLocal(entry.Append(nil, command)); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the group is fenced", func() bool { return source.linkState(g).Gate.Fenced })
		}
	}
	fence(systemGroup)
	_, err := amqp.Dial("amqp://guest:guest@" + address(source, protocolAMQP) + "/")
	var refused *amqp.Error
	if !errors.As(err, &refused) || refused.Code != amqp.ConnectionForced || !strings.Contains(refused.Reason, "elsewhere:5672") {
		t.Errorf("dialled a source that is being fenced: %v", err)
	}
	if source.Link().Fenced || source.linkIdentity().Fenced {
		t.Error("it says that it is fenced while only its system group is")
	}
	fence(source.groups[1:]...)
	if !source.Link().Fenced || !source.linkIdentity().Fenced {
		t.Error("it does not say that it is fenced")
	}
}

func TestAPlannedSwitchLosesNothingAndFencesTheSource(t *testing.T) {
	from, to := pair(t)
	source, standby := start(t, from), start(t, to)
	ready(t, source, standby)
	c := dial(t, source)
	closed := c.NotifyClose(make(chan *amqp.Error, 1))
	for range 50 {
		send(t, c, "work", "before")
	}
	follows(t, source, standby)
	p, err := standby.Switchover(t.Context(), api.Switchover{DrainSeconds: 1})
	if err != nil {
		t.Fatal(err)
	}
	if p.Kind != "planned" || !p.NothingCanMissing {
		t.Errorf("report %+v", p)
	}
	if s := standby.Link().Switch; s == nil || s.Step != "accepted" {
		t.Errorf("the standby says of the switch: %+v", s)
	}
	wantClosed(t, closed, "handed over")
	if !source.Link().Fenced {
		t.Error("the source is not fenced")
	}
	d := dial(t, standby)
	for range 50 {
		take(t, d, "work")
	}
}

// The source of a switch that cannot be completed goes on, once the standby has recorded that it will not promote itself.
func TestASwitchThatIsNotCompletedIsCancelledAndTheSourceGoesOn(t *testing.T) {
	from, to := pair(t)
	source, standby := start(t, from), start(t, to)
	ready(t, source, standby)
	c := dial(t, source)
	send(t, c, "work", "held")
	ch, err := c.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := ch.Get("work", false); err != nil || !ok { // in flight: the drain waits for it
		t.Fatal(ok, err)
	}
	follows(t, source, standby)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		eventually(t, "the source drains", func() bool { return source.linkState(1).Gate.Drain != 0 })
		cancel()
	}()
	if _, err := standby.Switchover(ctx, api.Switchover{DrainSeconds: 60}); err == nil {
		t.Fatal("the switch was completed")
	}
	if r := standby.Link().Role; r != "standby" {
		t.Errorf("the standby is %s now", r)
	}
	if s := standby.Link().Switch; s == nil || s.Step != "cancelled" {
		t.Errorf("the standby says of the switch: %+v", s)
	}
	eventually(t, "the source delivers again", func() bool { return source.linkState(1).Gate.Drain == 0 && source.Link().Switch == nil })
	send(t, c, "work", "more")
}

// What the standby has not read yet is missing; what it has is there, in order, without a gap.
func TestAPromotionDuringCatchUpCutsWhereTheStandbyIs(t *testing.T) {
	from, to := pair(t)
	source := start(t, from)
	ready(t, source)
	c := dial(t, source)
	const sent = 300
	for i := range sent {
		send(t, c, "work", strconv.Itoa(i))
	}
	standby := start(t, to)
	home, _ := source.vhostHome("/")
	eventually(t, "the standby has begun", func() bool { return standby.linkState(home.Group).Position.Index > 20 })
	p, err := standby.Promote(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range p.Groups {
		if cut := standby.linkState(g.Group).Position.Index; cut != g.Position.Index {
			t.Errorf("group %d was cut at entry %d, the report says %d", g.Group, cut, g.Position.Index)
		}
	}
	ch, err := dial(t, standby).Channel()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for ; ; n++ {
		d, ok, err := ch.Get("work", true)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		if string(d.Body) != strconv.Itoa(n) {
			t.Fatalf("message %d is %q", n, d.Body)
		}
	}
	ready(t, standby)
	send(t, dial(t, standby), "work", "after")
}

func TestALinkCertificateOfAnotherAuthorityIsRefused(t *testing.T) {
	from, to := pair(t)
	ours, theirs := certstest.New(t), certstest.New(t)
	server, _ := ours.Issue("source")
	mine, _ := ours.Issue("standby")
	foreign, _ := theirs.Issue("standby")
	from.LinkTLSCert, from.LinkTLSKey, from.LinkTLSCA = server.Cert, server.Key, server.CA
	to.LinkTLSCert, to.LinkTLSKey, to.LinkTLSCA = foreign.Cert, foreign.Key, server.CA // it has the token, and the right source
	source, standby := start(t, from), start(t, to)
	ready(t, source)
	eventually(t, "the standby is told why it is not let in", func() bool {
		nodes := standby.Link().Sources
		return len(nodes) == 1 && strings.Contains(nodes[0].Error, "certificate")
	})
	if l := standby.Link(); len(source.Link().Readers) != 0 || l.Source != "" {
		t.Errorf("it follows %q, readers %+v", l.Source, source.Link().Readers)
	}
	stop(t, standby)
	to.LinkTLSCert, to.LinkTLSKey = mine.Cert, mine.Key
	standby = start(t, to)
	ready(t, standby)
	follows(t, source, standby)
}

// askWithToken asks for a path with the link's token, and answers the HTTP status.
func askWithToken(t *testing.T, address, path string) int {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer secret")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}

// The link's port has the link's routes and no others, whatever the token.
func TestTheLinkPortServesNothingButTheLink(t *testing.T) {
	from, _ := pair(t)
	n := start(t, from)
	ready(t, n)
	for _, path := range []string{"/", "/api/overview", "/api/link", "/metrics", "/debug/pprof/"} {
		if status := askWithToken(t, address(n, protocolLink), path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
}

func TestALinkTokenOpensNothingButTheLink(t *testing.T) {
	from, _ := pair(t)
	n := start(t, from)
	ready(t, n)
	for _, path := range []string{"/api/overview", "/api/link", "/api/users"} {
		if status := askWithToken(t, address(n, protocolHTTP), path); status != http.StatusUnauthorized {
			t.Errorf("%s: %d", path, status)
		}
	}
	if _, port, err := net.SplitHostPort(address(n, protocolLink)); err != nil || port == "0" {
		t.Errorf("link port %s, %v", port, err)
	}
}

func TestADrainThatNoSwitchCanHaveIsRefused(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	talk(t, n, []exchange{
		{"POST", "/api/link/switchover", `{"drain_seconds":-1}`, 400, "from 0 to 100"},
		{"POST", "/api/link/switchover", `{"drain_seconds":1e9}`, 400, "from 0 to 100"},
		{"POST", "/api/link/switchover", `{"drain_seconds":100}`, 409, "no standby"},
	})
}
