package differential

import "strings"

// choice is a method that a walk may choose: how often, and how its arguments are made.
type choice struct {
	weight  int
	method  string
	settles bool // it needs deliveries
	fill    func(w *walk, s *step, held int)
}

var choices = []choice{
	{26, "basic.publish", false, func(w *walk, s *step, _ int) { w.publish(s) }},
	{10, "basic.get", false, func(w *walk, s *step, _ int) { s.arguments = list{w.lately(), w.chance(30)} }},
	{8, "basic.consume", false, func(w *walk, s *step, _ int) {
		s.arguments = list{w.lately(), pick(w, consumerTags), false, w.chance(25), w.chance(8), false, w.consumeArguments()}
	}},
	{4, "basic.cancel", false, func(w *walk, s *step, _ int) { s.arguments = list{pick(w, consumerTags), w.chance(8)} }},
	{9, "basic.ack", true, func(w *walk, s *step, held int) { s.arguments = list{w.tag(held), w.chance(30)} }},
	{5, "basic.nack", true, func(w *walk, s *step, held int) { s.arguments = list{w.tag(held), w.chance(30), w.chance(60)} }},
	{5, "basic.reject", true, func(w *walk, s *step, held int) { s.arguments = list{w.tag(held), w.chance(60)} }},
	{3, "basic.recover", false, func(w *walk, s *step, _ int) { s.arguments = list{!w.wrong()} }},
	{4, "basic.qos", false, func(w *walk, s *step, _ int) {
		s.arguments = list{0, w.IntN(4), w.chance(25)}
		if w.wrong() {
			s.arguments[0] = 1
		}
	}},
	{11, "queue.declare", false, func(w *walk, s *step, _ int) {
		q := w.lately()
		passive := q == namedPlace || w.chance(15)
		s.arguments = list{q, passive, w.chance(70), w.chance(10), w.chance(12), w.chance(8), w.queueArguments()}
	}},
	{9, "queue.bind", false, func(w *walk, s *step, _ int) {
		s.arguments = list{w.lately(), w.exchange(), pick(w, keys), w.chance(8), w.bindingArguments()}
	}},
	{4, "queue.unbind", false, func(w *walk, s *step, _ int) {
		s.arguments = list{w.lately(), w.exchange(), pick(w, keys), w.bindingArguments()}
	}},
	{3, "queue.delete", false, func(w *walk, s *step, _ int) { s.arguments = list{w.lately(), w.chance(30), w.chance(30), w.chance(8)} }},
	{2, "queue.purge", false, func(w *walk, s *step, _ int) { s.arguments = list{w.lately(), w.chance(8)} }},
	{6, "exchange.declare", false, func(w *walk, s *step, _ int) {
		x := w.exchange()
		s.arguments = list{x, pick(w, exchangeTypes), x != "" && w.chance(15), w.chance(70), w.chance(15), w.chance(8), w.chance(8), w.exchangeArguments()}
	}},
	{4, "exchange.bind", false, func(w *walk, s *step, _ int) {
		s.arguments = list{w.exchange(), w.exchange(), pick(w, keys), w.chance(8), w.bindingArguments()}
	}},
	{2, "exchange.unbind", false, func(w *walk, s *step, _ int) {
		s.arguments = list{w.exchange(), w.exchange(), pick(w, keys), w.chance(8), w.bindingArguments()}
	}},
	{2, "exchange.delete", false, func(w *walk, s *step, _ int) { s.arguments = list{w.exchange(), w.chance(40), w.chance(8)} }},
	{2, "tx.select", false, func(*walk, *step, int) {}},
	{2, "tx.commit", false, func(*walk, *step, int) {}},
	{1, "tx.rollback", false, func(*walk, *step, int) {}},
	{2, "confirm.select", false, func(w *walk, s *step, _ int) { s.arguments = list{w.chance(8)} }},
	{1, "channel.close", false, func(_ *walk, s *step, _ int) { s.arguments = list{200, "bye"} }},
}

var weights = func() (sum int) {
	for _, c := range choices {
		sum += c.weight
	}
	return sum
}()

var (
	queueNames     = []string{"q0<mark>", "q1<mark>", "q2<mark>", "q3<mark>", namedPlace}
	exchangeNames  = []string{"x0<mark>", "x1<mark>", "x2<mark>", "", "amq.direct", "amq.topic", "amq.fanout", "amq.headers", "amq.match"}
	oddNames       = []string{"nope", "amq.nope", "amq.gen-nope", "q\r\n4<mark>", strings.Repeat("n", 240), "ü ß€<mark>", "amq.", "amq"}
	exchangeTypes  = []string{"direct", "fanout", "topic", "headers"}
	keys           = []string{"a", "a.b", "a.b.c", "", "a.*", "#", "a.#", "*.b", "*", "#.c", "q0<mark>", "q1<mark>", "q2<mark>", namedPlace, "."}
	consumerTags   = []string{"t0", "t1", "t2", ""}
	expirations    = []string{"600000", "1000000", "4294967296"}
	badExpirations = []string{"-1", "abc", "1.5", " 1", "315360000001"}
)

// queueArgument is an argument of a queue with the values that it is given, right and wrong.
type queueArgument struct {
	name      string
	good, bad list
}

// queueArguments leaves out what the brokers are known to do otherwise: see accepted.go.
var queueArguments = []queueArgument{
	{"x-max-length", list{1, 2, 3, int64(2)}, list{-1, "1", nil, 1.5, true}},
	{"x-max-length-bytes", list{4, 10}, list{-1, "1"}},
	{"x-overflow", list{"drop-head"}, list{"nope", 1}},
	{"x-message-ttl", list{600000, int64(600000)}, list{-1, "1", nil, int64(4294967295000), 1.5}},
	{"x-expires", list{600000, int64(700000)}, list{0, -1, "1", nil}},
	{"x-dead-letter-exchange", list{"", "x0<mark>", "x1<mark>", "amq.fanout"}, list{"nope", 1, nil}},
	{"x-dead-letter-exchange", list{"", "x0<mark>", "x2<mark>", "amq.headers"}, list{true}},
	{"x-dead-letter-routing-key", list{"q0<mark>", "q1<mark>", "a"}, list{1, nil}},
	{"x-max-priority", list{0, 1, 5}, list{255, 256, -1, "1", nil}},
	{"x-single-active-consumer", list{true, false}, list{1, "true"}},
	{"x-queue-mode", list{"lazy", "default"}, list{"nope", 1}},
	{"x-queue-type", list{"classic"}, list{"nope", 1, nil}},
	{"x-queue-version", list{1, 2}, list{3, "1"}},
	{"x-nope", list{1, "a", nil, table{"a": 1}}, list{2}},
}

func (w *walk) queueArguments() table {
	t := table{}
	for range max(0, w.IntN(6)-2) {
		a := pick(w, queueArguments)
		values := a.good
		if !w.sane && w.chance(12) {
			values = a.bad
		}
		t[a.name] = pick(w, values)
	}
	if t["x-max-length"] != nil || t["x-max-length-bytes"] != nil {
		delete(t, "x-max-priority")
	}
	if w.narrow && w.chance(50) {
		t["x-overflow"] = pick(w, []string{"reject-publish", "reject-publish", "reject-publish-dlx"})
	}
	return t
}

func (w *walk) exchangeArguments() table {
	switch {
	case w.wrong():
		return table{"alternate-exchange": pick(w, list{"", 1, nil})}
	case w.chance(20):
		return table{"alternate-exchange": pick(w, list{"x0<mark>", "x1<mark>", "x2<mark>", "amq.fanout", "nope"})}
	}
	return nil
}

func (w *walk) consumeArguments() table {
	switch {
	case w.wrong():
		return table{"x-priority": pick(w, list{"1", nil, 1.5})}
	case w.chance(15):
		return table{"x-priority": pick(w, list{1, 2, -1, int64(1)})}
	}
	return nil
}

func (w *walk) bindingArguments() table {
	if !w.chance(35) {
		return nil
	}
	t := w.fields()
	if w.chance(60) {
		t["x-match"] = pick(w, list{"all", "any", "all-with-x", "any-with-x"})
	}
	if w.wrong() {
		t["x-match"] = pick(w, list{"nope", 1, nil})
	}
	return t
}

func (w *walk) headers() table {
	t := w.fields()
	if !w.narrow && w.chance(15) {
		t["CC"] = list{pick(w, keys)}
	}
	if !w.narrow && w.chance(15) {
		t["BCC"] = list{pick(w, keys), pick(w, keys)}
	}
	if w.wrong() {
		t[pick(w, []string{"CC", "BCC"})] = pick(w, list{"a", 1, nil, list{1}})
	}
	return t
}

func (w *walk) fields() table {
	t := table{}
	for range w.IntN(3) {
		t[pick(w, []string{"h1", "h2", "x-h"})] = pick(w, list{1, int64(1), "1", true, nil, 1.5, table{"a": 1}, list{1, "a"}, 2})
	}
	return t
}
