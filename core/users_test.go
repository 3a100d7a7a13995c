package core_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
)

// accessOf prints all that a machine knows of users.
func accessOf(m *core.Machine) string {
	return fmt.Sprint(m.Users(), m.Permissions(), m.TopicPermissions(), m.AccessGeneration())
}

// filled makes a system group with two users, one of them permitted something.
func filled(t *testing.T) *coretest.Driver {
	d := coretest.New(t)
	d.Control(&entry.NodeUp{Node: 1, Nonce: 7})
	d.Control(&entry.VhostPut{ID: "v1", Name: "/", Groups: 1}, &entry.VhostPut{ID: "v2", Name: "other", Groups: 1})
	d.Batch(1, &entry.UserPut{Name: "zoe", Hash: "h", Algorithm: "a", Tags: "administrator,management"},
		&entry.UserPut{Name: "a"},
		&entry.UserLimits{Name: "zoe", MaxConnections: 3},
		&entry.PermissionSet{User: "zoe", Vhost: "/", Configure: "c", Write: "w", Read: "r"},
		&entry.PermissionSet{User: "a", Vhost: "other", Read: ".*"},
		&entry.TopicPermissionSet{User: "zoe", Vhost: "/", Exchange: "x", Write: "w", Read: "r"},
		&entry.TopicPermissionSet{User: "zoe", Vhost: "/", Exchange: "y"})
	return d
}

func TestUsersAndPermissionsAreListedInOrder(t *testing.T) {
	m := filled(t).Machine
	zoe := core.UserInfo{Name: "zoe", Hash: "h", Algorithm: "a", Tags: []string{"administrator", "management"},
		MaxConnections: 2, MaxChannels: -1, Created: 1}
	if got := m.Users(); len(got) != 2 || got[0].Name != "a" || !reflect.DeepEqual(got[1], zoe) {
		t.Errorf("users %+v", got)
	}
	if got := m.Permissions(); len(got) != 2 || got[0].User != "a" || got[1] != (core.PermissionInfo{User: "zoe", Vhost: "/", Configure: "c", Write: "w", Read: "r"}) {
		t.Errorf("permissions %+v", got)
	}
	if got := m.TopicPermissions(); len(got) != 2 || got[0] != (core.TopicPermissionInfo{User: "zoe", Vhost: "/", Exchange: "x", Write: "w", Read: "r"}) {
		t.Errorf("topic permissions %+v", got)
	}
}

func TestUsersSurviveARestart(t *testing.T) {
	d := filled(t)
	d.Checkpoint()
	d.Batch(1, &entry.UserDelete{Name: "a"}, &entry.TopicPermissionClear{User: "zoe", Vhost: "/", Exchange: "x"})
	want := accessOf(d.Machine)
	d.Restart()
	if got := accessOf(d.Machine); got != want {
		t.Errorf("after a restart\n%s, before it\n%s", got, want)
	}
}

func TestADeletedUserTakesItsPermissionsAlong(t *testing.T) {
	d := filled(t)
	d.Batch(1, &entry.UserDelete{Name: "zoe"})
	if m := d.Machine; len(m.Users()) != 1 || len(m.Permissions()) != 1 || len(m.TopicPermissions()) != 0 {
		t.Errorf("left: %s", accessOf(m))
	}
	d.Batch(1, &entry.UserPut{Name: "zoe"})
	if got := d.Machine.Users()[1]; got.Created <= 1 || got.MaxConnections != -1 {
		t.Errorf("made anew it is the old user: %+v", got)
	}
}

func TestAPutKeepsLimitsAndTheHashIfAsked(t *testing.T) {
	d := filled(t)
	d.Batch(1, &entry.UserPut{Name: "zoe", KeepHash: true, Tags: "monitoring"})
	if u := d.Machine.Users()[1]; u.Hash != "h" || u.Algorithm != "a" || u.MaxConnections != 2 || u.Tags[0] != "monitoring" {
		t.Errorf("%+v", u)
	}
	d.Batch(1, &entry.UserPut{Name: "zoe", Hash: "new"})
	if u := d.Machine.Users()[1]; u.Hash != "new" || u.Algorithm != "" || len(u.Tags) != 0 {
		t.Errorf("%+v", u)
	}
}

func TestTheFirstUserIsMadeOnce(t *testing.T) {
	d := coretest.New(t)
	first := func(name string) { d.Control(&entry.UserPut{Name: name, FirstIn: "/"}) }
	first("one")
	first("two")
	if u, p := d.Machine.Users(), d.Machine.Permissions(); len(u) != 1 || u[0].Name != "one" || len(p) != 1 ||
		p[0] != (core.PermissionInfo{User: "one", Vhost: "/", Configure: ".*", Write: ".*", Read: ".*"}) {
		t.Errorf("%+v %+v", u, p)
	}
}

func TestClearedPermissionsAreGone(t *testing.T) {
	d := filled(t)
	d.Batch(1, &entry.TopicPermissionClear{User: "zoe", Vhost: "/"}, &entry.PermissionClear{User: "zoe", Vhost: "/"})
	if m := d.Machine; len(m.Permissions()) != 1 || len(m.TopicPermissions()) != 0 {
		t.Errorf("left: %s", accessOf(m))
	}
}

func TestEveryChangeOfAccessHasAGenerationAndAnAnswer(t *testing.T) {
	d := filled(t)
	for _, cmd := range []entry.Command{
		&entry.UserPut{Request: 9, Name: "zoe"}, &entry.UserLimits{Request: 9, Name: "zoe"},
		&entry.PermissionSet{Request: 9, User: "zoe", Vhost: "/"}, &entry.PermissionClear{Request: 9, User: "zoe"},
		&entry.TopicPermissionSet{Request: 9, User: "zoe", Vhost: "/"}, &entry.TopicPermissionClear{Request: 9, User: "zoe"},
		&entry.UserDelete{Request: 9, Name: "zoe"},
	} {
		before := d.Machine.AccessGeneration()
		fx := d.Batch(1, cmd)
		if d.Machine.AccessGeneration() == before {
			t.Errorf("%T: the generation stays", cmd)
		}
		if len(fx) != 1 || fx[0].Kind != core.EffectReply || fx[0].Request != 9 || fx[0].Node != 1 || fx[0].Command != cmd.Kind() {
			t.Errorf("%T: answered with %+v", cmd, fx)
		}
	}
	d.Batch(1, &entry.UserPut{Name: "zoe"})
	for _, cmd := range []entry.Command{
		&entry.UserDelete{Name: "no"}, &entry.UserLimits{Name: "no"}, &entry.PermissionSet{User: "no"}, &entry.PermissionClear{User: "no"},
		&entry.TopicPermissionSet{User: "no"}, &entry.TopicPermissionClear{User: "no"},
		&entry.PermissionSet{User: "zoe", Vhost: "no"}, &entry.TopicPermissionSet{User: "zoe", Vhost: "no"},
	} {
		before := accessOf(d.Machine)
		fx := d.Batch(1, cmd)
		if len(fx) != 1 || fx[0].Kind != core.EffectRefused || fx[0].Code != core.CodeNotFound || accessOf(d.Machine) != before {
			t.Errorf("%T of a user or vhost that is not there: %+v", cmd, fx)
		}
	}
}

func refuse(code core.Code) *entry.Refuse {
	return &entry.Refuse{Ref: ref, Command: entry.KindPublish, Code: uint8(code), Text: "no"}
}

func TestARefusedCommandFailsItsChannelInItsPlace(t *testing.T) {
	d := started(t)
	d.Batch(1, &entry.ConfirmSelect{Ref: ref})
	fx := d.Batch(1, publish("before"), refuse(core.CodeAccessRefused), publish("after"))
	if got := only(fx, core.EffectRefused); len(got) != 1 || got[0].Code != core.CodeAccessRefused || got[0].Text != "no" ||
		got[0].Command != entry.KindPublish || got[0].Channel != 1 {
		t.Errorf("refused: %+v", got)
	}
	if got := only(fx, core.EffectConfirmed); len(got) != 1 || got[0].Count != 1 {
		t.Errorf("confirmed: %+v, want the publish before", got)
	}
	if n := d.Machine.Queues("/")[0].Ready; n != 1 {
		t.Errorf("%d messages, want the one before", n)
	}
}

func TestAHardRefusalFailsTheSessionWhoseChannelIsNotOpen(t *testing.T) {
	d := started(t)
	x := refuse(core.CodeNotAllowed)
	x.Channel, x.Command = 2, entry.KindChannelOpen
	if got := only(d.Batch(1, x, publish("after")), core.EffectRefused); len(got) != 1 || got[0].Code != core.CodeNotAllowed {
		t.Errorf("refused: %+v", got)
	}
	if n := d.Machine.Queues("/")[0].Ready; n != 0 {
		t.Errorf("%d messages entered after it", n)
	}
	soft := refuse(core.CodeAccessRefused)
	soft.Channel = 2
	if fx := started(t).Batch(1, soft); len(fx) != 0 {
		t.Errorf("a soft refusal for a channel that is not open: %+v", fx)
	}
}

func TestARefusalWithAnUnknownCodeIsAnInternalError(t *testing.T) {
	for _, code := range []core.Code{core.CodeOK, 200} {
		if got := only(started(t).Batch(1, refuse(code)), core.EffectRefused); len(got) != 1 || got[0].Code != core.CodeInternalError {
			t.Errorf("code %d: %+v", code, got)
		}
	}
}
