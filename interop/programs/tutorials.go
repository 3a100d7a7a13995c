package programs

import "testing"

// Tutorials runs a family's programs of RabbitMQ's tutorials against the broker, one tutorial after the other:
//
//	hello send | receive
//	work task TEXT... | worker [die]          a dot in a task is a tenth of a second of work; one told to die does so with
//	                                          its first task in hand
//	logs emit TYPE KEY TEXT | receive TYPE KEY...     TYPE is fanout, direct or topic
//	rpc server | client N...
//	confirms
func (c Client) Tutorials(t *testing.T, url string) {
	s := school{c, []string{"AMQP_URL=" + url}}
	t.Run("1 hello world", s.helloWorld)
	t.Run("2 work queues", s.workQueues)
	t.Run("3 publish and subscribe", s.publishSubscribe)
	t.Run("4 routing", s.routing)
	t.Run("5 topics", s.topics)
	t.Run("6 rpc", s.rpc)
	t.Run("7 publisher confirms", s.confirms)
}

// school is where the tutorials' programs run.
type school struct {
	client Client
	env    []string
}

func (s school) start(t *testing.T, program string, args ...string) *Program {
	t.Helper()
	return s.client.Start(t, s.env, program, args...)
}

func (s school) helloWorld(t *testing.T) {
	send := s.start(t, "hello", "send")
	send.Says(" [x] Sent 'Hello World!'")
	send.Ends()
	s.start(t, "hello", "receive").Says(" [*] Waiting for messages", " [x] Received Hello World!")
}

func (s school) workQueues(t *testing.T) {
	dying := s.start(t, "work", "worker", "die")
	dying.Says(" [*] Waiting for messages")
	s.start(t, "work", "task", "First.", "Second", "Third..").Says(" [x] Sent First.", " [x] Sent Second", " [x] Sent Third..")
	dying.Says(" [x] Received First.")
	dying.Ends()
	living := s.start(t, "work", "worker")
	living.Says(" [*] Waiting for messages", " [x] Received First. again", " [x] Done First.", " [x] Received Second", " [x] Done Second",
		" [x] Received Third..", " [x] Done Third..")
}

func (s school) publishSubscribe(t *testing.T) {
	one, two := s.start(t, "logs", "receive", "fanout"), s.start(t, "logs", "receive", "fanout")
	one.Says(" [*] Waiting for logs")
	two.Says(" [*] Waiting for logs")
	s.start(t, "logs", "emit", "fanout", "", "info").Says(" [x] Sent :info")
	one.Says(" [x] :info")
	two.Says(" [x] :info")
}

func (s school) routing(t *testing.T) {
	all, errors := s.start(t, "logs", "receive", "direct", "info", "error"), s.start(t, "logs", "receive", "direct", "error")
	all.Says(" [*] Waiting for logs")
	errors.Says(" [*] Waiting for logs")
	for _, key := range []string{"info", "debug", "error"} {
		emit := s.start(t, "logs", "emit", "direct", key, "text")
		emit.Says(" [x] Sent " + key + ":text")
		emit.Ends()
	}
	all.Says(" [x] info:text", " [x] error:text")
	errors.Says(" [x] error:text")
}

func (s school) topics(t *testing.T) {
	all := s.start(t, "logs", "receive", "topic", "#")
	kern := s.start(t, "logs", "receive", "topic", "kern.*")
	critical := s.start(t, "logs", "receive", "topic", "*.critical")
	for _, r := range []*Program{all, kern, critical} {
		r.Says(" [*] Waiting for logs")
	}
	for _, key := range []string{"kern.info", "cron.critical", "kern.critical"} {
		emit := s.start(t, "logs", "emit", "topic", key, "text")
		emit.Says(" [x] Sent " + key + ":text")
		emit.Ends()
	}
	all.Says(" [x] kern.info:text", " [x] cron.critical:text", " [x] kern.critical:text")
	kern.Says(" [x] kern.info:text", " [x] kern.critical:text")
	critical.Says(" [x] cron.critical:text", " [x] kern.critical:text")
}

func (s school) rpc(t *testing.T) {
	server := s.start(t, "rpc", "server")
	server.Says(" [x] Awaiting requests")
	client := s.start(t, "rpc", "client", "10", "20")
	client.Says(" [.] Got 55 for fib(10)", " [.] Got 6765 for fib(20)")
	client.Ends()
	server.Says(" [.] fib(10)", " [.] fib(20)")
}

func (s school) confirms(t *testing.T) {
	c := s.start(t, "confirms")
	c.Says(" [x] 200 messages confirmed", " [x] returned lost: 312 NO_ROUTE", " [x] in order: True")
	c.Ends()
}
