//go:build interop

package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// commands are what rabbitmqadmin is told, and what it has to print somewhere.
var commands = []struct{ arguments, prints string }{
	{"declare vhost name=v/1", "vhost declared"},
	{"declare user name=u password=p tags=management", "user declared"},
	{"declare user name=h password_hash=kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR tags=administrator", "user declared"},
	{"declare permission vhost=v/1 user=u configure=.* write=.* read=.*", "permission declared"},
	{"declare permission vhost=v/1 user=guest configure=.* write=.* read=.*", "permission declared"},
	{"-V v/1 declare exchange name=x type=topic", "exchange declared"},
	{`-V v/1 declare exchange name=fan type=fanout durable=false auto_delete=true internal=true arguments={"alternate-exchange":"x"}`, "exchange declared"},
	{`-V v/1 declare queue name=q durable=true arguments={"x-max-length":50}`, "queue declared"},
	{"-V v/1 declare queue name=qq queue_type=quorum", "queue declared"},
	{"-V v/1 declare binding source=x destination=q routing_key=a.#", "binding declared"},
	{"-V v/1 declare binding source=x destination=fan destination_type=exchange routing_key=b", "binding declared"},
	{`-V v/1 declare policy name=p pattern=^q definition={"max-length":40} priority=1 apply-to=queues`, "policy declared"},
	{`-V v/1 declare operator_policy name=o pattern=^q definition={"max-length":30} priority=1 apply-to=queues`, "operator_policy declared"},
	{"-V v/1 declare vhost_limit vhost=v/1 name=max-queues value=9", "vhost_limit declared"},
	{`-V v/1 publish exchange=x routing_key=a.b payload=hello properties={"delivery_mode":2}`, "Message published"},
	{"-V v/1 publish exchange=x routing_key=nowhere payload=hello", "NOT routed"},
	{"-V v/1 publish routing_key=q payload=again", "Message published"},
	{"-V v/1 get queue=q count=5 ackmode=ack_requeue_true", "hello"},
	{"-V v/1 get queue=q ackmode=ack_requeue_false", "hello"},
	{"-V v/1 get queue=q", "again"},
	{"list vhosts", "v/1"},
	{"list users name tags", "management"},
	{"list permissions", "v/1"},
	{"list nodes name running mem_used", "True"},
	{"list connections", "No items"},
	{"list channels", "No items"},
	{"list consumers", "No items"},
	{"-V v/1 list exchanges name type", "topic"},
	{"-V v/1 list queues name policy arguments.x-max-length", "50"},
	{"-V v/1 --sort=name --sort-reverse list queues name messages", "qq"},
	{"-V v/1 -f kvp list bindings source destination routing_key", `source="x" destination="q" routing_key="a.#"`},
	{"-V v/1 list policies", "max-length"},
	{"list operator_policies", "max-length"},
	{"list vhost_limits", "max-queues"},
	{"list parameters", "operator_policy"},
	{"-f long -d 3 list queues", "message_stats.publish_details.rate"},
	{"show overview", "queue_totals.messages"},
	{"-u h -p test12 list vhosts", "v/1"},
	{"export all.json", "Exported definitions"},
	{"-V v/1 export one.json", "Exported definitions"},
	{"import all.json", "Uploaded definitions"},
	{"-V v/1 import one.json", "Uploaded definitions"},
	{"-V v/1 purge queue name=q", "queue purged"},
	{"-V v/1 delete binding source=x destination_type=queue destination=q properties_key=a.%23", "binding deleted"},
	{"-V v/1 delete policy name=p", "policy deleted"},
	{"-V v/1 delete operator_policy name=o", "operator_policy deleted"},
	{"-V v/1 delete vhost_limit vhost=v/1 name=max-queues", "vhost_limit deleted"},
	{"-V v/1 delete queue name=qq", "queue deleted"},
	{"-V v/1 delete queue name=q", "queue deleted"},
	{"-V v/1 delete exchange name=x", "exchange deleted"},
	{"-V v/1 delete exchange name=none", "Not found"},
	{"delete permission vhost=v/1 user=u", "permission deleted"},
	{"delete user name=u", "user deleted"},
	{"delete user name=h", "user deleted"},
	{"delete vhost name=v/1", "vhost deleted"},
}

// reading matches the arguments of a command that changes nothing.
var reading = regexp.MustCompile(`(^|-.* )(list|show|export) `)

// untilItPrints runs a command, and one that only reads again until it prints what is wanted: RabbitMQ's listings are
// seconds behind what was done.
func untilItPrints(want string, again bool, run func() string) string {
	out := run()
	for end := time.Now().Add(20 * time.Second); again && !strings.Contains(out, want) && time.Now().Before(end); out = run() {
		time.Sleep(200 * time.Millisecond)
	}
	return out
}

func TestRabbitMQAdminDoesAllThatItCan(t *testing.T) {
	program, err := exec.LookPath("rabbitmqadmin")
	if err != nil {
		t.Fatal(err)
	}
	for name, admin := range brokers(t) {
		dir := t.TempDir()
		for _, c := range commands {
			run := func() string {
				arguments := append([]string{program, "-H", "127.0.0.1", "-P", admin[strings.LastIndexByte(admin, ':')+1:]}, strings.Split(c.arguments, " ")...)
				cmd := exec.Command("python3", arguments...)
				cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir)
				out, _ := cmd.CombinedOutput() // what it prints tells more than its exit code
				return string(out)
			}
			if out := untilItPrints(c.prints, reading.MatchString(c.arguments), run); !strings.Contains(out, c.prints) {
				t.Errorf("%s: rabbitmqadmin %s\nprints %s\nwant   %s", name, c.arguments, out, c.prints)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "all.json")); err != nil {
			t.Error(err)
		}
	}
}
