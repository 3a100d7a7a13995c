//go:build interop

package tools

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
)

// fill makes one of everything in a RabbitMQ that its export has.
func fill(t *testing.T, admin string) {
	t.Helper()
	put := func(path, body string) { mustCall(t, admin, "PUT", "/api/"+path, body) }
	for _, vhost := range []string{"v1", "v/2 <ü>"} {
		v := url.PathEscape(vhost)
		put("vhosts/"+v, `{"description":"of a test","tags":"a,b"}`)
		put("permissions/"+v+"/guest", `{"configure":".*","write":".*","read":".*"}`)
		for _, kind := range []string{"direct", "fanout", "topic", "headers"} {
			put("exchanges/"+v+"/x."+kind, `{"type":"`+kind+`","durable":true,"arguments":{"alternate-exchange":"amq.fanout"}}`)
		}
		put("exchanges/"+v+"/x.internal", `{"type":"fanout","durable":false,"auto_delete":true,"internal":true}`)
		for name, body := range map[string]string{
			"q.classic": `{"durable":true,"arguments":{"x-max-length":5,"x-overflow":"reject-publish","x-message-ttl":60000,"x-expires":86400000,"x-max-priority":5}}`,
			"q.quorum":  `{"durable":true,"arguments":{"x-queue-type":"quorum","x-delivery-limit":3,"x-dead-letter-exchange":"x.topic","x-dead-letter-routing-key":"dead"}}`,
			"q.lazy":    `{"durable":true,"arguments":{"x-queue-mode":"lazy","x-single-active-consumer":true}}`,
			"q.short":   `{"durable":false,"auto_delete":true,"arguments":{}}`,
			"q/%3Cb%3E": `{"durable":true}`,
		} {
			put("queues/"+v+"/"+strings.Replace(name, "/", "%2F", 1), body)
		}
		bind := func(path, body string) { mustCall(t, admin, "POST", "/api/bindings/"+v+"/e/"+path, body) }
		bind("x.direct/q/q.classic", `{"routing_key":"k"}`)
		bind("x.topic/q/q.quorum", `{"routing_key":"a.*.#"}`)
		bind("x.fanout/q/q.lazy", `{"routing_key":""}`)
		bind("x.headers/q/q.classic", `{"routing_key":"","arguments":{"x-match":"any","n":1,"s":"t","b":true}}`)
		bind("x.headers/q/q.classic", `{"routing_key":"","arguments":{"x-match":"all","n":2}}`)
		bind("x.topic/e/x.fanout", `{"routing_key":"#"}`)
		bind("amq.topic/q/q%2F%3Cb%3E", `{"routing_key":"`+strings.Repeat("r", 255)+`"}`)
		put("policies/"+v+"/p", `{"pattern":"^q\\.","definition":{"max-length":1000,"dead-letter-exchange":"x.fanout"},"apply-to":"queues","priority":7}`)
		put("operator-policies/"+v+"/o", `{"pattern":"^q","definition":{"max-length":500,"message-ttl":3600000},"apply-to":"queues","priority":0}`)
		put("vhost-limits/"+v+"/max-queues", `{"value":50}`)
		put("vhost-limits/"+v+"/max-connections", `{"value":60}`)
	}
	put("users/app", `{"password":"secret","tags":"management,policymaker"}`)
	put("users/nobody", `{"password_hash":"","tags":""}`)
	put("users/named%20%C3%BC", `{"password":"x","tags":"monitoring"}`)
	put("user-limits/app/max-connections", `{"value":5}`)
	put("user-limits/app/max-channels", `{"value":50}`)
	put("permissions/v1/app", `{"configure":"^app","write":".*","read":"^(app|amq\\.)"}`)
	put("topic-permissions/v1/app", `{"exchange":"amq.topic","write":"^a","read":".*"}`)
}

// lists are what two exports have to agree in. Of a vhost RabbitMQ 3.10 exports the name alone.
var lists = []string{"users", "permissions", "topic_permissions", "parameters", "policies", "queues", "exchanges", "bindings"}

// comparable makes an export's list comparable: a sorted list of its rows as JSON.
func comparable(t *testing.T, export, list string) []string {
	t.Helper()
	var d map[string]json.RawMessage
	must(t, json.Unmarshal([]byte(export), &d))
	var rows []any
	must(t, json.Unmarshal(d[list], &rows))
	var texts []string
	for _, row := range rows {
		b, err := json.Marshal(row) // keys in order
		must(t, err)
		if !strings.Contains(string(b), `"name":"guest"`) { // each broker has made its own hash of it
			texts = append(texts, string(b))
		}
	}
	slices.Sort(texts)
	return texts
}

func wantSame(t *testing.T, what, got, want string) {
	t.Helper()
	for _, list := range lists {
		g, w := comparable(t, got, list), comparable(t, want, list)
		if !slices.Equal(g, w) {
			t.Errorf("%s: %s\n got %s\nwant %s", what, list, strings.Join(g, "\n     "), strings.Join(w, "\n     "))
		}
	}
}

func TestDefinitionsGoFromRabbitMQToUnderstudyAndBack(t *testing.T) {
	rabbit, _ := harness.StartRabbitMQ(t)
	fill(t, rabbit)
	original, name := mustCall(t, rabbit, "GET", "/api/definitions", ""), get(t, rabbit, "/api/cluster-name")
	node := harness.Start(t, harness.Options{}).Node(1)
	ours := "http://" + node.Admin
	mustCall(t, ours, "POST", "/api/definitions", withoutGuest(t, original))
	export := mustCall(t, ours, "GET", "/api/definitions", "")
	wantSame(t, "in Understudy", export, original)
	status, answer, err := callAs(ours, "named ü", "x", "GET", "/api/whoami", "")
	if err != nil || status != 200 {
		t.Errorf("a user that came with its hash: %d %s %v", status, answer, err)
	}

	for _, vhost := range []string{"v1", "v/2 <ü>"} {
		mustCall(t, rabbit, "DELETE", "/api/vhosts/"+url.PathEscape(vhost), "")
	}
	for _, user := range []string{"app", "nobody", "named%20%C3%BC"} {
		mustCall(t, rabbit, "DELETE", "/api/users/"+user, "")
	}
	mustCall(t, rabbit, "POST", "/api/definitions", withoutGuest(t, export))
	wantSame(t, "back in RabbitMQ", mustCall(t, rabbit, "GET", "/api/definitions", ""), original)
	if got, want := get(t, rabbit, "/api/cluster-name"), name; !reflect.DeepEqual(got, want) {
		t.Errorf("the import made RabbitMQ's cluster %v, it was %v", got, want)
	}

	one := mustCall(t, rabbit, "GET", "/api/definitions/v1", "")
	mustCall(t, ours, "PUT", "/api/vhosts/copy", "")
	mustCall(t, ours, "POST", "/api/definitions/copy", one)
	if got := fmt.Sprint(len(get(t, ours, "/api/queues/copy").([]any))); got != "5" {
		t.Errorf("a vhost's definitions made %s queues, want 5", got)
	}
}

// withoutGuest leaves out the user with which the test asks.
func withoutGuest(t *testing.T, export string) string {
	t.Helper()
	var d map[string]any
	must(t, json.Unmarshal([]byte(export), &d))
	users, _ := d["users"].([]any)
	d["users"] = slices.DeleteFunc(users, func(u any) bool { return u.(map[string]any)["name"] == "guest" })
	b, err := json.Marshal(d)
	must(t, err)
	return string(b)
}
