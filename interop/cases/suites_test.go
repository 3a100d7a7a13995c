package cases

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/understudy-mq/understudy/interop/rawclient"
)

func TestSuiteEveryExchangeOnTheWayLooksAtAllKeys(t *testing.T) {
	c := connect(t)
	lost := c.queue(nil)
	alternate := c.exchange("fanout", nil)
	c.bind(lost, alternate, "", nil)
	first, second, q := c.exchange("direct", table{"alternate-exchange": alternate}), c.exchange("topic", nil), c.queue(nil)
	c.bindExchange(second, first, "k1")
	c.bind(q, second, "k2", nil)
	c.publishWith(first, "none", props{Headers: table{"CC": list{"k1"}, "BCC": list{"k2"}}}, "over both")
	c.publishWith(first, "none", props{Headers: table{"CC": list{"k2"}}}, "nowhere")
	c.routed()
	c.wantBodies(q, "over both")
	c.wantBodies(lost, "nowhere")
}

func TestSuiteWhoDeletesItsConsumersQueueIsAnsweredFirst(t *testing.T) {
	c := connectAs(t, rawclient.Handshake{Properties: table{"capabilities": table{"consumer_cancel_notify": true}}})
	q := c.queue(nil)
	c.consume(q, "mine")
	c.send(1, "queue.delete", q)
	c.want("queue.delete-ok", "basic.cancel")
}

func TestSuiteWhatAClientSaysOfItselfIsListed(t *testing.T) {
	who := name(t, "platform")
	connectAs(t, rawclient.Handshake{Properties: table{"platform": who, "capabilities": table{"basic.nack": true}}})
	c := connect(t)
	c.awaitThat(func() error { // RabbitMQ lists what it has heard of at an interval
		var rows []struct {
			Properties struct {
				Platform     string
				Capabilities map[string]bool
			} `json:"client_properties"`
		}
		must(t, json.Unmarshal(admin(t, "GET", "/api/connections", ""), &rows))
		for _, row := range rows {
			if row.Properties.Platform == who && row.Properties.Capabilities["basic.nack"] {
				return nil
			}
		}
		return fmt.Errorf("nobody on %s among %+v", who, rows)
	})
}
