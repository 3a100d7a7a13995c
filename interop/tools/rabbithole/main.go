package main

import (
	"fmt"
	"net/http"
	"os"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
)

const vhost = "rabbit/hole"

// run is one conversation.
type run struct {
	*rabbithole.Client
	faults int
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: rabbithole http://HOST:PORT")
		os.Exit(2)
	}
	c, err := rabbithole.NewClient(os.Args[1], "guest", "guest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	c.SetTimeout(20 * time.Second)
	r := &run{Client: c}
	for _, step := range []func(){r.cluster, r.vhosts, r.users, r.exchangesAndQueues, r.policies, r.limits, r.clients, r.health, r.definitions, r.leave} {
		step()
	}
	if r.faults > 0 {
		os.Exit(1)
	}
	fmt.Println("all as it should be")
}

// want notes a fault unless a thing holds.
func (r *run) want(holds bool, what string, got ...any) {
	if !holds {
		r.faults++
		fmt.Printf("%s: %+v\n", what, got)
	}
}

// done notes a fault unless a call was answered with 2xx.
func (r *run) done(what string) func(*http.Response, error) {
	return func(res *http.Response, err error) {
		r.want(err == nil && res.StatusCode/100 == 2, what, res, err)
		if res != nil {
			_ = res.Body.Close()
		}
	}
}

func (r *run) cluster() {
	o, err := r.Overview()
	r.want(err == nil && o.RabbitMQVersion != "" && o.Node != "" && o.ObjectTotals.Exchanges >= 7 && len(o.Listeners) > 0 && len(o.ExchangeTypes) >= 4, "overview", o, err)
	nodes, err := r.ListNodes()
	r.want(err == nil && len(nodes) > 0 && nodes[0].IsRunning && nodes[0].OsPid != "" && nodes[0].FdTotal > 0 && nodes[0].MemUsed > 0 && nodes[0].DiskFree > 0 && nodes[0].Uptime > 0, "nodes", nodes, err)
	if len(nodes) > 0 {
		node, err := r.GetNode(nodes[0].Name)
		r.want(err == nil && node.Name == nodes[0].Name, "node", node, err)
	}
	name, err := r.GetClusterName()
	r.want(err == nil && name.Name != "", "cluster name", name, err)
	who, err := r.Whoami()
	r.want(err == nil && who.Name == "guest" && len(who.Tags) > 0, "whoami", who, err)
	_, err = r.ListFeatureFlags()
	r.want(err == nil, "feature flags", err)
}

func (r *run) vhosts() {
	r.done("put vhost")(r.PutVhost(vhost, rabbithole.VhostSettings{Description: "for a test", Tags: rabbithole.VhostTags{"t"}}))
	v, err := r.GetVhost(vhost)
	r.want(err == nil && v.Name == vhost && v.Description == "for a test" && len(v.Tags) == 1, "vhost", v, err)
	all, err := r.ListVhosts()
	r.want(err == nil && len(all) >= 2, "vhosts", all, err)
	_, err = r.GetVhost("none")
	r.want(err != nil, "a vhost that is not there was found")
}

func (r *run) users() {
	r.done("put user")(r.PutUser("rh", rabbithole.UserSettings{Password: "s3kr", Tags: rabbithole.UserTags{"management"}}))
	u, err := r.GetUser("rh")
	r.want(err == nil && u.Name == "rh" && u.PasswordHash != "" && len(u.Tags) == 1 && u.Tags[0] == "management", "user", u, err)
	r.done("put user with a hash")(r.PutUser("rh2", rabbithole.UserSettings{
		PasswordHash: "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", HashingAlgorithm: rabbithole.HashingAlgorithmSHA256, Tags: rabbithole.UserTags{"administrator"}}))
	other, err := rabbithole.NewClient(r.Endpoint, "rh2", "test12")
	r.want(err == nil, "client", err)
	_, err = other.Whoami()
	r.want(err == nil, "a user with a hash of RabbitMQ's logs in", err)
	r.done("permissions")(r.UpdatePermissionsIn(vhost, "rh", rabbithole.Permissions{Configure: "^a", Write: ".*", Read: ""}))
	p, err := r.GetPermissionsIn(vhost, "rh")
	r.want(err == nil && p.Configure == "^a" && p.Write == ".*" && p.Read == "", "permission", p, err)
	r.done("permissions of ourselves")(r.UpdatePermissionsIn(vhost, "guest", rabbithole.Permissions{Configure: ".*", Write: ".*", Read: ".*"}))
	r.done("topic permissions")(r.UpdateTopicPermissionsIn(vhost, "rh", rabbithole.TopicPermissions{Exchange: "amq.topic", Write: "^a", Read: ".*"}))
	tp, err := r.GetTopicPermissionsIn(vhost, "rh")
	r.want(err == nil && len(tp) == 1 && tp[0].Exchange == "amq.topic", "topic permissions", tp, err)
	r.done("clear topic permissions")(r.ClearTopicPermissionsIn(vhost, "rh"))
	all, err := r.ListUsers()
	r.want(err == nil && len(all) >= 3, "users", all, err)
	r.done("user limits")(r.PutUserLimits("rh", rabbithole.UserLimitsValues{"max-connections": 5}))
	l, err := r.GetUserLimits("rh")
	r.want(err == nil && len(l) == 1 && l[0].Value["max-connections"] == 5, "user limits", l, err)
	r.done("delete user limits")(r.DeleteUserLimits("rh", rabbithole.UserLimits{"max-connections"}))
}

func (r *run) exchangesAndQueues() {
	const q, x = "q <b>'1'</b>/ü", "x/1"
	r.done("declare exchange")(r.DeclareExchange(vhost, x, rabbithole.ExchangeSettings{Type: "topic", Durable: true, Arguments: map[string]any{"alternate-exchange": "amq.fanout"}}))
	exchange, err := r.GetExchange(vhost, x)
	r.want(err == nil && exchange.Name == x && exchange.Type == "topic" && exchange.Durable && exchange.Arguments["alternate-exchange"] == "amq.fanout", "exchange", exchange, err)
	r.done("declare queue")(r.DeclareQueue(vhost, q, rabbithole.QueueSettings{Durable: true, Arguments: map[string]any{"x-max-length": 9}}))
	queue, err := r.GetQueue(vhost, q)
	r.want(err == nil && queue.Name == q && queue.Durable && queue.Arguments["x-max-length"] == 9.0 && queue.Type == "classic", "queue", queue, err)
	res, err := r.DeclareBinding(vhost, rabbithole.BindingInfo{Source: x, Destination: q, DestinationType: "queue", RoutingKey: "a.#", Arguments: map[string]any{}})
	r.want(err == nil && res.StatusCode == 201 && res.Header.Get("Location") != "", "bind", res, err)
	for what, list := range map[string]func() ([]rabbithole.BindingInfo, error){
		"bindings of the queue":      func() ([]rabbithole.BindingInfo, error) { return r.ListQueueBindings(vhost, q) },
		"bindings between":           func() ([]rabbithole.BindingInfo, error) { return r.ListQueueBindingsBetween(vhost, x, q) },
		"bindings of the exchange":   func() ([]rabbithole.BindingInfo, error) { return r.ListExchangeBindingsWithSource(vhost, x) },
		"bindings of the vhost":      func() ([]rabbithole.BindingInfo, error) { return r.ListBindingsIn(vhost) },
		"bindings of all the vhosts": r.ListBindings,
	} {
		found := false
		rows, err := list()
		for _, b := range rows {
			found = found || b.Source == x && b.Destination == q && b.RoutingKey == "a.#" && b.PropertiesKey == "a.%23"
		}
		r.want(err == nil && found, what, rows, err)
	}
	r.done("purge")(r.PurgeQueue(vhost, q))
	queues, err := r.ListQueuesIn(vhost)
	r.want(err == nil && len(queues) == 1, "queues", queues, err)
	page, err := r.PagedListQueuesWithParametersIn(vhost, map[string][]string{"page": {"1"}, "page_size": {"10"}, "name": {"^q"}, "use_regex": {"true"}})
	r.want(err == nil && page.FilteredCount == 1 && page.PageCount == 1 && len(page.Items) == 1, "page", page, err)
	r.done("unbind")(r.DeleteBinding(vhost, rabbithole.BindingInfo{Source: x, Destination: q, DestinationType: "queue", PropertiesKey: "a.%23"}))
	rows, err := r.ListQueueBindingsBetween(vhost, x, q)
	r.want(err == nil && len(rows) == 0, "bindings between, when unbound", rows, err)
	r.done("delete queue")(r.DeleteQueue(vhost, q))
	r.done("delete exchange")(r.DeleteExchange(vhost, x))
	_, err = r.GetQueue(vhost, q)
	r.want(err != nil, "a deleted queue was found")
}

func (r *run) policies() {
	r.done("policy")(r.PutPolicy(vhost, "p", rabbithole.Policy{Pattern: "^q", ApplyTo: "queues", Priority: 3, Definition: rabbithole.PolicyDefinition{"max-length": 5}}))
	p, err := r.GetPolicy(vhost, "p")
	r.want(err == nil && p.Pattern == "^q" && p.ApplyTo == "queues" && p.Priority == 3 && p.Definition["max-length"] == 5.0, "policy", p, err)
	list, err := r.ListPoliciesIn(vhost)
	r.want(err == nil && len(list) == 1, "policies", list, err)
	r.done("delete policy")(r.DeletePolicy(vhost, "p"))
	r.done("operator policy")(r.PutOperatorPolicy(vhost, "op", rabbithole.OperatorPolicy{Pattern: "^q", ApplyTo: "queues", Definition: rabbithole.PolicyDefinition{"max-length": 5}}))
	o, err := r.GetOperatorPolicy(vhost, "op")
	r.want(err == nil && o.Pattern == "^q" && o.Definition["max-length"] == 5.0, "operator policy", o, err)
	r.done("delete operator policy")(r.DeleteOperatorPolicy(vhost, "op"))
}

func (r *run) limits() {
	r.done("vhost limits")(r.PutVhostLimits(vhost, rabbithole.VhostLimitsValues{"max-queues": 7, "max-connections": 8}))
	l, err := r.GetVhostLimits(vhost)
	r.want(err == nil && len(l) == 1 && l[0].Value["max-queues"] == 7 && l[0].Value["max-connections"] == 8, "vhost limits", l, err)
	r.done("delete vhost limits")(r.DeleteVhostLimits(vhost, rabbithole.VhostLimits{"max-queues", "max-connections"}))
	parameters, err := r.ListRuntimeParameters()
	r.want(err == nil, "runtime parameters", parameters, err)
	globals, err := r.ListGlobalParameters()
	r.want(err == nil && len(globals) > 0, "global parameters", globals, err)
}

func (r *run) clients() {
	for what, err := range map[string]error{
		"connections": second(r.ListConnections()), "channels": second(r.ListChannels()), "consumers": second(r.ListConsumers()),
		"consumers in": second(r.ListConsumersIn(vhost)), "connections of a vhost": second(r.ListVhostConnections(vhost)),
	} {
		r.want(err == nil, what, err)
	}
	_, err := r.GetConnection("none")
	r.want(err != nil, "a connection that is not there was found")
}

func second[T any](_ T, err error) error { return err }

func (r *run) health() {
	alarms, err := r.HealthCheckAlarms()
	r.want(err == nil && alarms.Ok(), "alarms", alarms, err)
	local, err := r.HealthCheckLocalAlarms()
	r.want(err == nil && local.Ok(), "local alarms", local, err)
	vhosts, err := r.HealthCheckVirtualHosts()
	r.want(err == nil && vhosts.Ok(), "virtual hosts", vhosts, err)
	critical, err := r.HealthCheckNodeIsQuorumCritical()
	r.want(err == nil && critical.Ok(), "quorum critical", critical, err)
	mirror, err := r.HealthCheckNodeIsMirrorSyncCritical()
	r.want(err == nil && mirror.Ok(), "mirror sync critical", mirror, err)
	certificates, err := r.HealthCheckCertificateExpiration(1, rabbithole.DAYS)
	r.want(err == nil && certificates.Ok(), "certificates", certificates, err)
	amqp, err := r.HealthCheckProtocolListener(rabbithole.AMQP091)
	r.want(err == nil && amqp.Ok(), "AMQP listener", amqp, err)
	mqtt, err := r.HealthCheckProtocolListener(rabbithole.MQTT)
	r.want(err == nil && !mqtt.Ok() && mqtt.Missing == "mqtt" && len(mqtt.Protocols) > 0, "no MQTT listener", mqtt, err)
	port, err := r.HealthCheckPortListener(1)
	r.want(err == nil && !port.Ok() && port.Missing == 1 && len(port.Ports) > 0, "no listener on port 1", port, err)
}

func (r *run) definitions() {
	d, err := r.ListDefinitions()
	r.want(err == nil && d.RabbitVersion != "" && len(*d.Users) >= 3 && len(*d.Vhosts) >= 2 && len(*d.Permissions) >= 2, "definitions", d, err)
	of, err := r.ListVhostDefinitions(vhost)
	r.want(err == nil && of.Queues != nil, "definitions of a vhost", of, err)
}

func (r *run) leave() {
	r.done("delete permissions")(r.ClearPermissionsIn(vhost, "rh"))
	r.done("delete user")(r.DeleteUser("rh"))
	r.done("delete user")(r.DeleteUser("rh2"))
	r.done("delete vhost")(r.DeleteVhost(vhost))
	_, err := r.GetVhost(vhost)
	r.want(err != nil, "a deleted vhost was found")
}
