package node

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/core"
)

func TestQueuesAreDeclaredPurgedAndDeletedOverTheAPI(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	client := dial(t, n)
	const q = "/api/queues/%2F/a%2Fb"
	talk(t, n, []exchange{
		{"PUT", q, `{"auto_delete":false,"durable":true,"arguments":{"x-max-length":5},"node":"any"}`, 201, ""},
		{"PUT", q, `{"arguments":{"x-max-length":5}}`, 204, ""},
		{"GET", q, "", 200, `"durable":true,"auto_delete":false,"exclusive":false,"arguments":{"x-max-length":5}`},
		{"PUT", q, `{"arguments":{"x-max-length":6}}`, 400, "inequivalent arg 'x-max-length'"},
		{"PUT", q, `{"durable":false}`, 400, "inequivalent arg"},
		{"PUT", "/api/queues/%2F/bad", `{"arguments":{"x-max-length":-1}}`, 400, "x-max-length"},
		{"PUT", "/api/queues/%2F/" + strings.Repeat("q", 256), `{}`, 400, "at most 255"},
		{"PUT", "/api/queues/%2F/a%01b", `{}`, 400, "control characters"},
		{"DELETE", "/api/queues/%2F/none", "", 404, "no queue 'none'"},
		{"DELETE", "/api/queues/%2F/none/contents", "", 404, "no queue 'none'"},
	})
	ch, err := client.Channel()
	if err != nil {
		t.Fatal(err)
	}
	send(t, client, "plain", "x")
	talk(t, n, []exchange{
		{"DELETE", "/api/queues/%2F/plain?if-empty=true", "", 400, "not empty"},
		{"DELETE", "/api/queues/%2F/plain/contents", "", 204, ""},
		{"GET", "/api/queues/%2F/plain", "", 200, `"messages":0`},
	})
	if _, err := ch.Consume("plain", "", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	talk(t, n, []exchange{
		{"DELETE", "/api/queues/%2F/plain?if-unused=true", "", 400, "in use"},
		{"DELETE", "/api/queues/%2F/plain?if-empty=true", "", 204, ""},
		{"GET", "/api/queues/%2F/plain", "", 404, "Not Found"},
	})
	eventually(t, "the API's sessions have ended", func() bool {
		return !has(n, "/", (*core.Machine).Sessions, func(s core.SessionInfo) bool { return s.Connection == errandName })
	})
}

func TestAClientsExclusiveQueueIsNotTheAPIsToDelete(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	ch, err := dial(t, n).Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare("mine", false, false, true, false, nil); err != nil {
		t.Fatal(err)
	}
	talk(t, n, []exchange{
		{"DELETE", "/api/queues/%2F/mine", "", 400, "exclusive access"},
		{"DELETE", "/api/queues/%2F/mine/contents", "", 400, "exclusive access"},
		{"GET", "/api/queues/%2F/mine", "", 200, `"exclusive":true`},
	})
}

func TestExchangesAndBindingsAreMadeAndUndoneOverTheAPI(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	const x, toQueue, toExchange = "/api/exchanges/%2F/x", "/api/bindings/%2F/e/x/q/q", "/api/bindings/%2F/e/x/e/amq.fanout"
	talk(t, n, []exchange{
		{"PUT", x, `{"type":"headers"}`, 201, ""},
		{"PUT", x, `{"type":"headers","durable":true,"internal":false,"auto_delete":false,"arguments":{}}`, 204, ""},
		{"PUT", x, `{"type":"topic"}`, 400, "inequivalent arg 'type'"},
		{"PUT", "/api/exchanges/%2F/y", `{"type":"cubic"}`, 400, "cubic"},
		{"PUT", "/api/exchanges/%2F/amq.y", `{"type":"topic"}`, 403, "reserved prefix"},
		{"DELETE", "/api/exchanges/%2F/amq.topic", "", 403, "amq.topic"},
		{"DELETE", "/api/exchanges/%2F/none", "", 404, "no exchange 'none'"},
		{"POST", toQueue, `{}`, 404, "no queue 'q'"},
		{"PUT", "/api/queues/%2F/q", `{}`, 201, ""},
		{"POST", toQueue, `{"routing_key":"a~b"}`, 201, ""},
		{"POST", toQueue, `{"routing_key":"a~b","arguments":{"x-match":"any","k":1}}`, 201, ""},
		{"POST", toQueue, `{"arguments":{"x-match":"some"}}`, 400, "x-match"},
		{"POST", toExchange, `{}`, 201, ""},
		{"GET", toQueue, "", 200, `"routing_key":"a~b","arguments":{},"properties_key":"a%7Eb"`},
		{"GET", toExchange, "", 200, `"properties_key":"~"`},
		{"DELETE", x + "?if-unused=true", "", 400, "in use"},
		{"GET", toQueue + "/a%257Eb", "", 200, `"routing_key":"a~b","arguments":{}`},
		{"GET", toQueue + "/a", "", 404, "Not Found"},
		{"DELETE", toQueue + "/a%257Eb", "", 204, ""},
		{"DELETE", toQueue + "/a%257Eb", "", 404, "no binding"},
		{"GET", toQueue, "", 200, `[{"source":"x","vhost":"/","destination":"q","destination_type":"queue","routing_key":"a~b","arguments":{"k":1`},
		{"DELETE", toExchange + "/~", "", 204, ""},
		{"DELETE", x, "", 204, ""},
		{"GET", toQueue, "", 200, "[]"},
		{"POST", "/api/bindings/%2F/e/amq.default/q/q", `{}`, 403, "default exchange"},
	})
}

func TestABindingMadeOverTheAPIRoutes(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	talk(t, n, []exchange{
		{"PUT", "/api/queues/%2F/q", `{}`, 201, ""},
		{"POST", "/api/bindings/%2F/e/amq.headers/q/q", `{"arguments":{"x-match":"all","n":5,"s":"t"}}`, 201, ""},
	})
	client := dial(t, n)
	ch, err := client.Channel()
	if err != nil {
		t.Fatal(err)
	}
	for body, headers := range map[string]amqp.Table{"yes": {"n": int32(5), "s": "t"}, "no": {"n": int32(6), "s": "t"}} {
		if err := ch.Publish("amq.headers", "", false, false, amqp.Publishing{Headers: headers, Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := ch.Close(); err != nil {
		t.Fatal(err)
	}
	if got := take(t, client, "q"); got != "yes" {
		t.Errorf("got %q, want yes", got)
	}
	talk(t, n, []exchange{{"GET", "/api/queues/%2F/q", "", 200, `"messages":0`}})
}

func TestTheAPIChangesOnlyWhatItsCallerMay(t *testing.T) {
	n := start(t, settings(t, 1))
	ready(t, n)
	newUser(t, n, "dev", "^dev-", "^dev-", "^dev-")
	adminCall(t, n, "PUT", "/api/users/dev", `{"password":"secret","tags":"management"}`, 204)
	adminCall(t, n, "PUT", "/api/queues/%2F/other", "{}", 201)
	talkAs(t, n, "dev:secret", []exchange{
		{"PUT", "/api/queues/%2F/dev-q", "{}", 201, ""},
		{"DELETE", "/api/queues/%2F/dev-q/contents", "", 204, ""},
		{"DELETE", "/api/queues/%2F/other", "", 403, "configure access"},
		{"DELETE", "/api/queues/%2F/other/contents", "", 403, "read access"},
		{"PUT", "/api/exchanges/%2F/x", `{"type":"topic"}`, 403, "configure access"},
		{"POST", "/api/bindings/%2F/e/amq.topic/q/dev-q", "{}", 403, "amq.topic"},
		{"PUT", "/api/policies/%2F/p", `{"pattern":"","definition":{"max-length":1}}`, 403, "policymaker"},
		{"GET", "/api/policies/%2F", "", 200, "[]"},
		{"DELETE", "/api/queues/%2F/dev-q", "", 204, ""},
	})
}
