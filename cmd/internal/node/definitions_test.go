package node

import (
	"encoding/json"
	"strings"
	"testing"
)

// good is a file with one thing of each kind, as RabbitMQ writes it.
const good = `{"rabbit_version":"3.10.8","rabbitmq_version":"3.10.8","product_name":"RabbitMQ","product_version":"3.10.8",
"users":[{"name":"u1","password_hash":"Y6v15nUO0Jd+1RtrdU6UP5lnkCHGBv67VT9OObmAsLzh/eoe","hashing_algorithm":"rabbit_password_hashing_sha256","tags":["management","policymaker"],"limits":{"max-connections":5}},
 {"name":"u2","password_hash":"","hashing_algorithm":"rabbit_password_hashing_sha256","tags":"","limits":{}}],
"vhosts":[{"name":"/"},{"name":"v1","description":"d","tags":["a"],"metadata":{"description":"d","tags":["a"]}}],
"permissions":[{"user":"u1","vhost":"v1","configure":"^a","write":".*","read":""}],
"topic_permissions":[{"user":"u1","vhost":"v1","exchange":"amq.topic","write":"^a","read":".*"}],
"parameters":[{"value":{"max-connections":50,"max-queues":2},"vhost":"v1","component":"vhost-limits","name":"limits"},
 {"value":{"pattern":"^o","definition":{"max-length":10},"priority":0,"apply-to":"queues"},"vhost":"v1","component":"operator_policy","name":"op"}],
"global_parameters":[{"name":"internal_cluster_id","value":"rabbitmq-cluster-id-x"}],
"policies":[{"vhost":"v1","name":"p","pattern":"^p","apply-to":"queues","definition":{"dead-letter-exchange":"dlx","max-length":10},"priority":2}],
"queues":[{"name":"q1","vhost":"v1","durable":true,"auto_delete":false,"arguments":{"x-queue-type":"quorum","x-max-length":5}},
 {"name":"q2","vhost":"v1","durable":false,"auto_delete":true,"arguments":{}},{"name":"q3","vhost":"v1","durable":true,"auto_delete":false,"arguments":{}}],
"exchanges":[{"name":"x1","vhost":"v1","type":"topic","durable":true,"auto_delete":false,"internal":false,"arguments":{"alternate-exchange":"x2"}},
 {"name":"x2","vhost":"v1","type":"fanout","durable":true,"auto_delete":false,"internal":true,"arguments":{}}],
"bindings":[{"source":"x1","vhost":"v1","destination":"q1","destination_type":"queue","routing_key":"a.#","arguments":{}},
 {"source":"x1","vhost":"v1","destination":"x2","destination_type":"exchange","routing_key":"","arguments":{}},
 {"source":"amq.headers","vhost":"v1","destination":"q1","destination_type":"queue","routing_key":"","arguments":{"k":1,"x-match":"all"}}]}`

func TestDefinitionsAreImportedWholeAndComeBackTheSame(t *testing.T) {
	first, second := start(t, settings(t, 1)), start(t, settings(t, 1))
	ready(t, first, second)
	talk(t, first, []exchange{
		{"POST", "/api/definitions", good, 204, ""},
		{"POST", "/api/definitions", good, 204, ""}, // again: nothing changes
		{"GET", "/api/users/u1", "", 200, `"hashing_algorithm":"rabbit_password_hashing_sha256","tags":["management","policymaker"],"limits":{"max-connections":5}`},
		{"GET", "/api/vhosts/v1", "", 200, `"description":"d","tags":["a"]`},
		{"GET", "/api/permissions/v1/u1", "", 200, `"configure":"^a","write":".*","read":""`},
		{"GET", "/api/topic-permissions/v1/u1", "", 200, `"exchange":"amq.topic","write":"^a"`},
		{"GET", "/api/vhost-limits/v1", "", 200, `"max-connections":50,"max-queues":2`},
		{"GET", "/api/operator-policies/v1/op", "", 200, `"definition":{"max-length":10},"priority":0`},
		{"GET", "/api/policies/v1/p", "", 200, `"dead-letter-exchange":"dlx"`},
		{"GET", "/api/queues/v1/q1", "", 200, `"arguments":{"x-max-length":5,"x-queue-type":"quorum"}`},
		{"GET", "/api/queues/v1/q2", "", 200, `"durable":false,"auto_delete":true`},
		{"GET", "/api/exchanges/v1/x2", "", 200, `"internal":true`},
		{"GET", "/api/bindings/v1/e/amq.headers/q/q1", "", 200, `"arguments":{"k":1,"x-match":"all"}`},
		{"GET", "/api/parameters/vhost-limits/v1/limits", "", 200, `"value":{"max-connections":50,"max-queues":2}`},
	})
	for _, path := range []string{"/api/definitions", "/api/definitions/v1"} {
		_, text := ask(t, first, path)
		talk(t, second, []exchange{{"POST", path, text, 204, ""}})
		if _, back := ask(t, second, path); back != text {
			t.Errorf("%s:\n got %s\nwant %s", path, back, text)
		}
	}
	talk(t, first, []exchange{ // what RabbitMQ asks for, or would take as being about itself
		{"GET", "/api/definitions/v1", "", 200, `"value":{"pattern":"^o","definition":{"max-length":10},"apply-to":"queues","priority":0}`},
		{"GET", "/api/definitions", "", 200, `"global_parameters":[]`},
	})
}

func TestAVhostsDefinitionsGoIntoTheVhostThatIsNamed(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	talk(t, n, []exchange{
		{"PUT", "/api/vhosts/other", "", 201, ""},
		{"POST", "/api/definitions/other", `{"rabbit_version":"3.10.8","queues":[{"name":"q","vhost":"v1","durable":true,"auto_delete":false,"arguments":{}}],
			"policies":[{"vhost":"v1","name":"p","pattern":"","definition":{"max-length":1}}],"exchanges":[],"bindings":[]}`, 204, ""},
		{"GET", "/api/queues/other/q", "", 200, `"policy":"p"`},
		{"POST", "/api/definitions/other", `{"users":[{"name":"u","password_hash":"","tags":""}]}`, 400, "belong to the whole cluster"},
		{"POST", "/api/definitions/none", `{}`, 404, ""},
	})
}

func TestABadFileOfDefinitionsChangesNothingAndEveryFaultIsListed(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	talk(t, n, []exchange{
		{"PUT", "/api/queues/%2F/there", `{"arguments":{"x-max-length":5}}`, 201, ""},
		{"PUT", "/api/vhost-limits/%2F/max-queues", `{"value":2}`, 204, ""},
	})
	_, before := ask(t, n, "/api/definitions")
	bad := `{"users":[{"name":"u","password_hash":"x","hashing_algorithm":"rot13","tags":[]},{"name":"w","password_hash":"","tags":[]},{"name":"w","password_hash":"","tags":[]},{"name":"bare","tags":[]},
	 {"name":"k","password_hash":"","tags":[],"limits":{"max-loops":1}},{"name":7}],
	"vhosts":[{"name":""},{"name":"v","default_queue_type":"stream"}],
	"permissions":[{"user":"nobody","vhost":"/","configure":"(","write":"","read":""},{"user":"w","vhost":"nowhere","configure":"","write":"","read":""}],
	"topic_permissions":[{"user":"w","vhost":"/","exchange":"x","write":"[","read":""}],
	"parameters":[{"component":"shovel","vhost":"/","name":"s","value":{}},{"component":"vhost-limits","vhost":"/","name":"limits","value":{"max-loops":1}},
	 {"component":"operator_policy","vhost":"/","name":"o","value":{"pattern":"","definition":{"max-length":-1}}}],
	"global_parameters":[{"name":"mqtt_port","value":1}],
	"policies":[{"vhost":"/","name":"p","pattern":"(","definition":{"max-length":1}},{"vhost":"/","name":"e","pattern":"","definition":{}}],
	"queues":[{"name":"there","vhost":"/","durable":true,"auto_delete":false,"arguments":{}},{"name":"new","vhost":"/","durable":true,"auto_delete":false,"arguments":{}},
	 {"name":"toomany","vhost":"/","durable":true,"auto_delete":false,"arguments":{}},{"name":"stream","vhost":"v","durable":true,"auto_delete":false,"type":"stream","arguments":{}},
	 {"name":"neg","vhost":"v","durable":true,"auto_delete":false,"arguments":{"x-max-length":-1}},{"name":"a\u0001b","vhost":"v","durable":true,"auto_delete":false,"arguments":{}},
	 {"name":"lost","vhost":"nowhere","durable":true,"auto_delete":false,"arguments":{}}],
	"exchanges":[{"name":"c","vhost":"v","type":"cubic","durable":true,"auto_delete":false,"internal":false,"arguments":{}},{"name":"amq.mine","vhost":"v","type":"topic","durable":true,"auto_delete":false,"internal":false,"arguments":{}}],
	"bindings":[{"source":"none","vhost":"/","destination":"there","destination_type":"queue","routing_key":"","arguments":{}},
	 {"source":"amq.topic","vhost":"/","destination":"none","destination_type":"queue","routing_key":"","arguments":{}},
	 {"source":"amq.topic","vhost":"/","destination":"there","destination_type":"bucket","routing_key":"","arguments":{}},
	 {"source":"amq.headers","vhost":"/","destination":"there","destination_type":"queue","routing_key":"","arguments":{"x-match":"some"}}],
	"spells":[1]}`
	status, text := request(t, n, "guest:guest", "POST", "/api/definitions", bad)
	var answer struct{ Faults []string }
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != 400 {
		t.Fatalf("%d %s", status, text)
	}
	// What cannot be read hides only what may follow from it.
	for _, want := range []string{"users: entry 6", "spells: such definitions are not known", "vhosts: '': vhost name is empty"} {
		if !strings.Contains(strings.Join(answer.Faults, "\n"), want) {
			t.Errorf("no fault %q in %q", want, answer.Faults)
		}
	}
	bad = strings.Replace(strings.Replace(bad, `,{"name":7}`, "", 1), `"spells":[1]`, `"spells":[]`, 1)
	status, text = request(t, n, "guest:guest", "POST", "/api/definitions", bad)
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != 400 {
		t.Fatalf("%d %s", status, text)
	}
	for _, want := range []string{
		"users: 'u': hashing algorithm", "users: 'w' is there twice", "users: 'bare': a user needs", "users: 'k': limit max-loops",
		"vhosts: '': vhost name is empty", "vhosts: 'v': default queue type 'stream'", "permissions: user 'nobody' not found",
		"permissions: 'nobody': ", "permissions: 'w': vhost 'nowhere' not found", "topic_permissions: 'w': ", "component shovel not found",
		"unknown limit 'max-loops'", "operator policies: 'o' in vhost '/': ", "global_parameters: 'mqtt_port'", "policies: 'p' in vhost '/': ",
		"policies: 'e' in vhost '/': a policy needs", "queues: 'toomany': cannot declare queue 'toomany': queue limit", "queues: 'stream': ",
		"queues: 'neg': invalid arg 'x-max-length'", "queues: invalid name", "queues: 'lost': vhost 'nowhere' not found", "exchanges: 'c': unknown exchange type",
		"exchanges: 'amq.mine': ", "bindings: 'none' to queue 'there': no exchange 'none'", "bindings: 'amq.topic' to queue 'none': no queue 'none'",
		"bindings: destination_type 'bucket'", "bindings: 'amq.headers' to queue 'there': invalid x-match",
	} {
		if !strings.Contains(strings.Join(answer.Faults, "\n"), want) {
			t.Errorf("no fault %q in:\n%s", want, strings.Join(answer.Faults, "\n"))
		}
	}
	if len(answer.Faults) != 27 {
		t.Errorf("%d faults, want 27:\n%s", len(answer.Faults), strings.Join(answer.Faults, "\n"))
	}
	if _, after := ask(t, n, "/api/definitions"); after != before {
		t.Errorf("a bad file changed\n%s\ninto\n%s", before, after)
	}
	for name, text := range map[string]string{
		"no JSON": "{", "a list": "[]", "more": "{}{}", "a number for a list": `{"queues":1}`, "deep": `{"queues":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "}",
	} {
		if status, answer := request(t, n, "guest:guest", "POST", "/api/definitions", text); status != 400 {
			t.Errorf("%s: %d %s, want 400", name, status, answer)
		}
	}
}
