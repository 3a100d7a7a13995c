package definitions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

// plan checks a file by a cluster that has the vhost "/", with the exchange "x" and the queue "q", and the user "guest".
func plan(t *testing.T, text, vhost string) (Plan, Faults) {
	t.Helper()
	d, err := Read([]byte(text), vhost)
	var faults Faults
	if errors.As(err, &faults) {
		return Plan{}, faults
	}
	p, err := Check(d, State{
		Users: []string{"guest"},
		Vhost: func(name string) (Vhost, bool) {
			return Vhost{
				Exchanges: []core.ExchangeInfo{{Name: "x", Type: "topic", Durable: true}, {Name: "amq.fanout", Type: "fanout", Durable: true}},
				Queues:    []core.QueueInfo{{Name: "q", Durable: true}},
				Limits:    entry.VhostLimit{Vhost: "/", MaxQueues: 3, Connections: -1},
			}, name == "/"
		},
		CheckUser:  func(string, api.NewUser) error { return nil },
		CheckVhost: func(string, api.NewVhost) error { return nil },
		CheckName: func(what, name string) error {
			if name == "bad" {
				return fmt.Errorf("bad %s", what)
			}
			return nil
		},
	})
	errors.As(err, &faults)
	return p, faults
}

func TestWhatIsThereStaysAndTheRestIsPlannedInAnOrderThatWorks(t *testing.T) {
	p, faults := plan(t, `{"vhosts":[{"name":"new"}],
		"bindings":[{"vhost":"/","source":"x","destination":"r","destination_type":"queue","routing_key":"k"},
			{"vhost":"/","source":"","destination":"q","destination_type":"queue","routing_key":"q"}],
		"queues":[{"vhost":"/","name":"q","durable":false,"arguments":{"x-max-length":-1}},{"vhost":"/","name":"r","type":"quorum"},{"vhost":"new","name":"amq.gen-1"}],
		"exchanges":[{"vhost":"/","name":"x","type":"fanout"},{"vhost":"/","name":"y","type":"direct"}]}`, "")
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	got := ""
	for _, w := range p.Within {
		for _, cmd := range w.Objects {
			got += w.Vhost + " " + called(cmd) + "\n"
		}
	}
	if want := "/ exchanges: 'y'\n/ queues: 'r'\n/ bindings: 'x' to queue 'r'\nnew queues: 'amq.gen-1'\n"; got != want {
		t.Errorf("planned\n%swant\n%s", got, want)
	}
	r, _ := message.ParseTable(p.Within[0].Objects[1].(*entry.QueueDeclare).Arguments)
	if kind, _ := r.Get("x-queue-type"); kind != "quorum" {
		t.Errorf("r is planned as a queue of type %v, want the type that the file has beside the arguments", kind)
	}
	for _, cmd := range p.Within[1].Objects {
		if q := cmd.(*entry.QueueDeclare); !q.Generated {
			t.Errorf("%s is not taken for a name of the broker's", q.Name)
		}
	}
}

func TestAVhostsOwnLimitCountsInTheRehearsal(t *testing.T) {
	_, faults := plan(t, `{"queues":[{"vhost":"/","name":"a"},{"vhost":"/","name":"b"},{"vhost":"/","name":"c"}]}`, "")
	if len(faults) != 1 || !strings.Contains(faults[0], "'c'") || !strings.Contains(faults[0], "limit") {
		t.Errorf("%q, want that c is one too many", faults)
	}
}

func TestAFaultDoesNotHideTheNext(t *testing.T) {
	for _, c := range []struct{ name, text, vhost, want string }{
		{"no JSON", `{`, "", "it is no JSON object"}, {"no object", `[]`, "", "it is no JSON object"}, {"more", `{}{}`, "", "there is more behind the JSON object"},
		{"lists", `{"queues":7,"users":{},"exchanges":[1,{"name":2}]}`, "", "exchanges: entry 1: number|exchanges: entry 2: name: number has no place there|queues: is no list, but number|users: is no list, but object"},
		{"of a file that can be read in part", `{"users":7,"vhosts":[7],"policies":7,"queues":[7,{"vhost":"/","name":"n","arguments":{"x-max-length":-1}}],
			"permissions":[{"user":"of the file","vhost":"of the file"},{"user":"guest","vhost":"/","write":"("}],
			"bindings":[{"vhost":"/","source":"x","destination":"of the file","destination_type":"queue"}]}`, "",
			"policies: is no list, but number|queues: entry 1|users: is no list|vhosts: entry 1|permissions: 'guest'|queues: 'n'"},
		{"and none for what follows", `{"exchanges":[{"vhost":"/","name":"c","type":"cubic"}],"queues":[{"vhost":"/","name":"n","arguments":{"x-max-length":null,"n":1e999}}],
			"bindings":[{"vhost":"/","source":"c","destination":"q","destination_type":"queue"},{"vhost":"/","source":"x","destination":"n","destination_type":"queue"},
				{"vhost":"/","source":"x","destination":"c","destination_type":"exchange"},{"vhost":"/","source":"x","destination":"nowhere","destination_type":"queue"}]}`, "",
			"queues: 'n'|exchanges: 'c'|bindings: 'x' to queue 'nowhere'"},
		{"unknown lists", `{"a":[1],"b":{"c":1},"d":[],"e":{},"f":1,"g":"x"}`, "", "a: such definitions|b: such definitions"},
		{"of one vhost", `{"users":[{"name":"u"}],"permissions":[{"user":"u"}],"metadata":{"a":1},"limits":[1]}`, "/", "permissions: those belong|users: those belong"},
		{"of the cluster", `{"metadata":{"a":1},"limits":[1]}`, "", "limits: such|metadata: such"},
		{"twice", `{"queues":[{"vhost":"/","name":"a"},{"vhost":"/","name":"a"}],"exchanges":[{"vhost":"/","name":"z","type":"direct"},{"vhost":"/","name":"z","type":"direct"}],
			"permissions":[{"user":"guest","vhost":"/"},{"user":"guest","vhost":"/"}]}`, "", "permissions: 'guest' '/' is there twice|exchanges: 'z' '/' is there twice|queues: 'a' '/' is there twice"},
		{"names", `{"queues":[{"vhost":"/","name":"bad"}],"bindings":[{"vhost":"/","source":"x","destination":"q","destination_type":"queue","routing_key":"bad"}]}`, "", "queues: bad name|bindings: bad routing key"},
		{"what a rehearsal refuses", `{"exchanges":[{"vhost":"/","name":"c","type":"cubic"},{"vhost":"/","name":"d","type":"direct"}],"queues":[{"vhost":"/","name":"n","arguments":{"x-max-length":-1}}]}`, "",
			"exchanges: 'c': |queues: 'n': "},
		{"limits", `{"parameters":[{"component":"vhost-limits","vhost":"/","name":"limits","value":{"max-queues":"x"}},{"component":"vhost-limits","vhost":"no","name":"limits","value":{"max-queues":1}}]}`, "",
			"parameters: limits of vhost '/'|parameters: 'limits': vhost 'no' not found"},
	} {
		_, faults := plan(t, c.text, c.vhost)
		wants := strings.Split(c.want, "|")
		if len(faults) != len(wants) || !slices.EqualFunc(faults, wants, strings.HasPrefix) {
			t.Errorf("%s: %q, want %q", c.name, faults, wants)
		}
	}
}

func TestUsersAndVhostsOfTheSameFileAreThere(t *testing.T) {
	p, faults := plan(t, `{"users":[{"name":"u"}],"vhosts":[{"name":"v"}],"permissions":[{"user":"u","vhost":"v","configure":"","write":"","read":""},{"user":"guest","vhost":"/"}],
		"topic_permissions":[{"user":"u","vhost":"v","exchange":"amq.topic","write":"","read":""}],"queues":[{"vhost":"v","name":"q"}]}`, "")
	if len(faults) > 0 || len(p.Users) != 1 || len(p.Vhosts) != 1 || len(p.Permissions) != 2 || len(p.TopicPermissions) != 1 {
		t.Errorf("%q, plan %+v", faults, p)
	}
}

func TestALaterPolicyOfTheSameNameIsAFaultButAnOperatorsIsAnother(t *testing.T) {
	_, faults := plan(t, `{"policies":[{"vhost":"/","name":"p","pattern":"","definition":{"max-length":1}},{"vhost":"/","name":"p","pattern":"","definition":{"max-length":2}}],
		"parameters":[{"component":"operator_policy","vhost":"/","name":"p","value":{"pattern":"","definition":{"max-length":3}}}]}`, "")
	if len(faults) != 1 || faults[0] != "policies: 'p' '/' is there twice" {
		t.Errorf("%q, want one that is there twice", faults)
	}
}
