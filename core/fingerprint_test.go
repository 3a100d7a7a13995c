package core

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/internal/ledger"
	ready "github.com/understudy-mq/understudy/core/internal/queue"
	"github.com/understudy-mq/understudy/core/message"
)

// populated makes a machine that has one of everything.
func populated(t *testing.T) *Machine {
	m := New(1)
	ref := entry.Ref{Session: 1, Epoch: 1, Channel: 1}
	record := append(message.AppendRecord(nil, &message.Record{Form: message.FormAMQP091, RoutingKey: []byte("q"), BodySize: 1}), 'x')
	index, seq := uint64(0), uint64(0)
	apply := func(node, incarnation, seq uint64, cmds ...entry.Command) {
		index++
		var b []byte
		for _, c := range cmds {
			b = entry.Append(b, c)
		}
		data := entry.AppendBatch(entry.AppendHeader(nil, 1000), node, incarnation, seq, b)
		if err := m.Apply(index, data, &Effects{}); err != nil {
			t.Fatal(err)
		}
	}
	apply(0, 0, 0, &entry.NodeUp{Node: 1, Nonce: 7}, &entry.VhostCreate{ID: "v", Name: "/"}, &entry.ClusterInit{ID: "c"},
		&entry.VhostPut{ID: "v", Name: "/", Groups: 2}, &entry.VhostPut{ID: "w", Name: "gone"}, &entry.VhostBury{ID: "w"},
		&entry.LeaderUp{Node: 1, Term: 2}, &entry.UserPut{Name: "u", Tags: "management"},
		&entry.PermissionSet{User: "u", Vhost: "/"}, &entry.TopicPermissionSet{User: "u", Vhost: "/", Exchange: "x"})
	apply(0, 0, 0, &entry.PolicySet{Vhost: "/", Name: "p", Pattern: "^none$", ApplyTo: "queues"})
	for _, cmd := range []entry.Command{
		&entry.Attach{Vhost: "/", User: "u", Key: "k", Connection: "c", Expiry: 60},
		&entry.ChannelOpen{Ref: ref},
		&entry.ChannelOpen{Ref: entry.Ref{Session: 1, Epoch: 1, Channel: 2}},
		&entry.QueueDeclare{Ref: ref, Name: "q", Exclusive: true},
		&entry.QueueBind{Binding: entry.Binding{Ref: ref, Source: "amq.topic", Destination: "q", Key: "k"}},
		&entry.TxSelect{Ref: entry.Ref{Session: 1, Epoch: 1, Channel: 2}},
		&entry.ExchangeDeclare{Ref: ref, Name: "late", Type: "x-delayed-message", Arguments: message.AppendTable(nil, message.Table{{Key: "x-delayed-type", Value: "topic"}})},
		&entry.Publish{Ref: ref, Record: delayedRecord()},
		&entry.Qos{Ref: ref, Prefetch: 1},
		&entry.Consume{Ref: ref, Queue: "q", Tag: "ct"},
		&entry.Publish{Ref: ref, Record: record},
		&entry.Fragment{Ref: ref, Piece: []byte("one")},
		&entry.Publish{Ref: ref, Fragmented: true, Record: record},
		&entry.Fragment{Ref: ref, Piece: []byte("two")},
		&entry.QueueDeclare{Ref: ref, Name: "dead", Arguments: message.AppendTable(nil, message.Table{
			{Key: "x-max-length", Value: int32(0)}, {Key: "x-dead-letter-exchange", Value: ""}, {Key: "x-dead-letter-routing-key", Value: "q"}})},
		&entry.Publish{Ref: ref, Record: append(message.AppendRecord(nil, &message.Record{Form: message.FormAMQP091, RoutingKey: []byte("dead"), BodySize: 1}), 'x')},
		&entry.QueueDeclare{Ref: ref, Name: "amq.gen-1", Exclusive: true, Generated: true},
		&entry.Publish{Ref: ref, Record: record, DedupID: []byte("id")},
		&entry.Publish{Ref: ref, Record: record, Publisher: []byte("p"), Sequence: 1},
		&entry.Attach{Vhost: "/", User: "u", Key: "other", Expiry: 60},
		&entry.ChannelOpen{Ref: entry.Ref{Session: 2, Epoch: 1, Channel: 1}},
		&entry.Qos{Ref: entry.Ref{Session: 2, Epoch: 1, Channel: 1}, Prefetch: 1},
		&entry.Attach{Vhost: "/", User: "u", Key: "other", Expiry: 60},
	} {
		seq++
		apply(1, 1, seq, cmd)
	}
	return m
}

func delayedRecord() []byte {
	p := message.Properties{Set: message.PropHeaders, Headers: message.AppendTable(nil, message.Table{{Key: "x-delay", Value: int32(9)}})}
	return message.AppendRecord(nil, &message.Record{Form: message.FormAMQP091, Exchange: []byte("late"), Properties: message.AppendProperties(nil, &p)})
}

// derived are the fields beside rows that need not be in the fingerprint, each with its reason.
var derived = map[string]string{
	"vhost.sharing": "memory",
	"vhost.counted": "counters", "vhost.buried": "counters", "queue.counters": "counters", "exchange.counters": "counters",
	"session.counted": "counters",
	"vhost.arrived":   "counters", "channel.publishes": "counters",
	"vhost.router":       "made from exchanges, queues and bindings",
	"vhost.exchanges":    "the objects themselves are rows",
	"vhost.exchange":     "index of exchanges",
	"vhost.queues":       "the objects themselves are rows",
	"vhost.queue":        "index of queues",
	"vhost.queueByName":  "index of queues",
	"vhost.consumer":     "index of consumers",
	"vhost.bindings":     "the objects themselves are rows",
	"vhost.binding":      "index of bindings",
	"vhost.contents":     "the objects themselves are rows",
	"vhost.content":      "index of contents",
	"vhost.lastQueue":    "cache of an index",
	"vhost.lastConsumer": "cache of an index",
	"vhost.lastExchange": "cache of an index",
	"exchange.from":      "from bindings",
	"exchange.to":        "from bindings",
	"binding.identity":   "the row's key, from its fields",
	"binding.source":     "by name",
	"binding.queue":      "by name",
	"binding.exchange":   "by name",
	"binding.at":         "place in a list without order",
	"binding.atFrom":     "place in a list without order",
	"binding.atTo":       "place in a list without order",
	"queue.vhost":        "by number",
	"queue.set":          "from the arguments",
	"queue.ready":        "each reference is hashed by itself: TestEachFieldOfAReferenceCounts",
	"queue.notes":        "each note is hashed by itself: TestEachFieldOfANoteCounts",
	"queue.plain":        "from the arguments",
	"queue.trims":        "from the arguments",
	"queue.timer":        "from all else: the queue says when it is due",
	"queue.bodies":       "sum over the lanes",
	"queueRow.Firsts":    "from the lanes, when the row is encoded",
	"vhost.rejecting":    "count over the queues",
	"vhost.held":         "the objects themselves are rows",
	"vhost.delaying":     "count over the exchanges",
	"queue.held":         "index of the vhost's",
	"held.timer":         "from the row",
	"held.vhost":         "by number",
	"held.atQueue":       "place in a list without order",
	"heldRow.Loc":        "a location is local knowledge",
	"heldRow.Parts.Loc":  "a location is local knowledge", "contentRow.Parts.Loc": "a location is local knowledge",
	"channelRow.Parts.Loc": "a location is local knowledge", "channelRow.Pending.Loc": "a location is local knowledge",
	"channelRow.Pending.Parts.Loc": "a location is local knowledge",
	"channel.timer":                "from all else: the channel says when it is due",
	"vhost.policies":               "the objects themselves are rows",
	"policy.pattern":               "from the row",
	"policy.definition":            "from the row",
	"queue.configured":             "true once it was added",
	"queue.policy":                 "found among the vhost's",
	"queue.operator":               "found among the vhost's",
	"exchange.configured":          "says only that the router knows",
	"exchange.policy":              "found among the vhost's",
	"exchange.operator":            "found among the vhost's",
	"vhost.deadLettering":          "count over the queues",
	"vhost.byHeaders":              "count over the bindings",
	"vhost.letters":                "the objects themselves are rows",
	"vhost.letter":                 "index of letters",
	"letter.at":                    "place in a list without order",
	"queue.counts":                 "from the arguments",
	"Machine.cascade":              "of the command at hand",
	"Machine.buried":               "scratch",
	"Machine.draining":             "deleted vhosts and those with remains",
	"Machine.clearLeft":            "of the entry at hand",
	"vhostRow.Remains":             "from the remains, when the row is encoded",
	"vhost.remains":                "in the row, and each reference is hashed by itself",
	"vhost.drained":                "local knowledge about the store",
	"Machine.timers":               "each object says when it is due",
	"Machine.dueLeft":              "of the entry at hand",
	"Machine.commands":             "of this process",
	"vhost.fresh":                  "of the command at hand",
	"vhost.freshIn":                "of the command at hand",
	"Machine.returns":              "each object says when it is due",
	"queue.bytes":                  "sum over the list",
	"queue.flying":                 "sum over the channels' ledgers",
	"queue.consumers":              "the objects themselves are rows",
	"queue.first":                  "the ring, from the consumers' turns",
	"queue.last":                   "the ring, from the consumers' turns",
	"queue.exclusive":              "from consumers",
	"queue.bindings":               "from bindings",
	"vhost.sessions":               "count over the sessions",
	"vhost.byKey":                  "index of sessions",
	"vhost.namedOf":                "count over the sessions",
	"session.windows":              "the objects themselves are rows",
	"session.publishers":           "the objects themselves are rows",
	"window.session":               "by id",
	"window.timer":                 "from the row and the session",
	"Machine.dedup":                "from the windows",
	"Machine.marked":               "of the command at hand",
	"Machine.token":                "scratch",
	"Machine.hashing":              "scratch",
	"session.timer":                "from all else: the session says when it is due",
	"session.generated":            "from the queues' makers",
	"Machine.counts":               "of this process",
	"queue.waiting":                "false between commands",
	"queueRow.First":               "from the list, when the row is encoded",
	"consumer.queue":               "by id",
	"consumer.channel":             "by session and number",
	"consumer.owing":               "false between commands",
	"Machine.owing":                "empty between commands",
	"consumer.next":                "the ring, from turns",
	"consumer.previous":            "the ring, from turns",
	"session.vhost":                "by number",
	"session.channels":             "the objects themselves are rows",
	"session.exclusive":            "from the queues' owners",
	"session.lastUsed":             "cache of an index",
	"session.lastEffect":           "of the effects at hand only",
	"channel.session":              "by id",
	"channel.flight":               "each record is hashed by itself: TestEachFieldOfAReferenceCounts",
	"channel.consumers":            "from consumers",
	"content.at":                   "place in a list without order",
	"local.localRow":               "local facts are no part of the fingerprint",
	"Machine.link":                 "local facts",
	"Machine.gate":                 "of the entry at hand",
	"Machine.replaying":            "of the entry at hand",
	"Machine.muted":                "the same everywhere",
	"Machine.nowhere":              "of the entry at hand",
	"Machine.group":                "which machine this is",
	"Machine.bounds":               "the same everywhere",
	"Machine.header":               "a row",
	"Machine.local":                "local facts",
	"Machine.nodes":                "rows",
	"Machine.vhosts":               "rows",
	"Machine.vhost":                "index of vhosts",
	"Machine.sessions":             "rows",
	"Machine.session":              "index of sessions",
	"Machine.lastUsed":             "cache of an index",
	"Machine.queuePool":            "spare memory",
	"Machine.tagPool":              "spare memory",
	"Machine.live":                 "local knowledge",
	"Machine.access":               "rows",
	"Machine.registry":             "rows",
	"vhosts.list":                  "the objects themselves are rows",
	"vhosts.byID":                  "index of the list",
	"vhosts.byName":                "index of the list",
	"vhosts.inGroup":               "count over the list",
	"vhosts.tombstones":            "count over the list",
	"registered.at":                "place in a list without order",
	"Machine.fingerprint":          "itself",
	"Machine.touched":              "empty between entries",
	"Machine.dirty":                "local knowledge about the store",
	"Machine.coder":                "scratch",
	"Machine.index":                "of the entry at hand",
	"Machine.data":                 "of the entry at hand",
	"Machine.fx":                   "of the entry at hand",
	"Machine.batch":                "of the entry at hand",
	"Machine.waiting":              "empty between commands",
	"Machine.doomed":               "empty between commands",
	"Machine.publish":              "scratch",
	"Machine.settle":               "scratch",
	"Machine.written":              "scratch",
	"Machine.record":               "scratch",
	"Machine.routes":               "scratch",
	"Machine.headers":              "scratch",
}

// change makes a field's value another one.
func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	default:
		panic(fmt.Sprintf("a row has a field of kind %s", v.Kind()))
	}
}

// rowField is a replicated field, also one of a struct within the row, or of the first of several.
type rowField struct {
	name  string
	value reflect.Value
}

// fieldsOf lists the fields of a struct. Where it has a list of structs, that has one that says something afterwards.
func fieldsOf(r reflect.Value, name string) []rowField {
	var list []rowField
	for i := range r.NumField() {
		f, within := r.Type().Field(i), pointedAt(r.Field(i))
		part := name + "." + f.Name
		if f.Anonymous {
			part = name
		}
		if within.Kind() == reflect.Slice && within.Type().Elem().Kind() == reflect.Struct {
			if within.Len() == 0 {
				within.Set(reflect.MakeSlice(within.Type(), 1, 1))
				for _, x := range fieldsOf(within.Index(0), part) {
					change(x.value)
				}
			}
			within = within.Index(0)
		}
		if within.Kind() == reflect.Struct {
			list = append(list, fieldsOf(within, part)...)
			continue
		}
		list = append(list, rowField{part, within})
	}
	return list
}

// pointedAt follows a pointer, which is given something to point at where it is nil.
func pointedAt(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem().Set(reflect.New(v.Type().Elem()))
	}
	return reflect.Indirect(v)
}

// row answers an object's replicated fields.
func row(o object) reflect.Value {
	v := reflect.ValueOf(o).Elem()
	for i := range v.NumField() {
		if strings.HasSuffix(v.Type().Field(i).Name, "Row") {
			return v.Field(i)
		}
	}
	panic(fmt.Sprintf("%T has no row", o))
}

// unused says whether a field does not count as long as its channel was never parked.
func unused(o object, name string) bool {
	h, ok := o.(*channel)
	field, _, _ := strings.Cut(strings.TrimPrefix(name, "channelRow."), ".")
	_, after := reflect.TypeFor[again]().FieldByName(field)
	return ok && !h.Resumed && (after && field != "Resumed" || name == "channelRow.Runs.Epoch")
}

func TestFingerprintChangesWithAnyReplicatedField(t *testing.T) {
	m := populated(t)
	seen := map[string]bool{}
	m.each(func(o object) {
		r := row(o)
		seen[r.Type().Name()] = true
		fields := fieldsOf(r, r.Type().Name())
		before := m.Recompute()
		for _, x := range fields {
			name, f := x.name, x.value
			old := reflect.New(f.Type()).Elem()
			old.Set(f)
			change(f)
			list := name[:strings.LastIndex(name, ".")]
			wants := derived[name] == "" && derived[list] == "" && !o.state().local && !unused(o, name)
			if changed := m.Recompute() != before; changed != wants {
				t.Errorf("%s: fingerprint changed %v, want %v", name, changed, wants)
			}
			f.Set(old)
		}
	})
	if len(seen) != 23 {
		t.Errorf("only %d kinds of rows were there: %v", len(seen), seen)
	}
}

func TestEveryFieldIsReplicatedOrHasAReasonNotToBe(t *testing.T) {
	for _, x := range []any{header{}, local{}, link{}, node{}, vhost{}, exchange{}, binding{}, queue{}, consumer{}, session{}, channel{},
		content{}, letter{}, policy{}, held{}, window{}, publisher{}, registry{}, vhosts{}, registered{}, user{}, permission{}, topicPermission{}, Machine{}} {
		typ := reflect.TypeOf(x)
		for i := range typ.NumField() {
			f := typ.Field(i)
			if f.Name == "meta" || f.Name == typ.Name()+"Row" || derived[typ.Name()+"."+f.Name] != "" {
				continue
			}
			t.Errorf("%s.%s is neither in a row nor known to be derived", typ.Name(), f.Name)
		}
	}
}

func TestEachFieldOfAReferenceCounts(t *testing.T) {
	q := &queue{queueRow: queueRow{Vhost: 1, ID: 1}}
	other := &queue{queueRow: queueRow{Vhost: 2, ID: 1}}
	third := &queue{queueRow: queueRow{Vhost: 1, ID: 2}}
	r := ready.Ref{Number: 1, Loc: 1, Size: 1, Flags: 1}
	hashes := map[uint64]string{}
	note := func(hash uint64, what string) {
		if was, ok := hashes[hash]; ok {
			t.Errorf("%s hashes as %s", what, was)
		}
		hashes[hash] = what
	}
	note(readyHash(q, &r), "a ready message")
	note(readyHash(other, &r), "vhost")
	note(readyHash(third, &r), "queue")
	note(readyHash(q, &ready.Ref{Number: 2, Size: 1, Flags: 1}), "number")
	note(readyHash(q, &ready.Ref{Number: 1, Size: 2, Flags: 1}), "size")
	note(readyHash(q, &ready.Ref{Number: 1, Size: 1, Flags: 2}), "flags")
	if readyHash(q, &ready.Ref{Number: 1, Loc: 2, Size: 1, Flags: 1}) != readyHash(q, &r) {
		t.Error("a location counts, which is local knowledge")
	}
	h := &channel{channelRow: channelRow{Session: 1, Number: 1}}
	d := ledger.Record{Ref: r, Queue: 1, Consumer: 1}
	change := func(f func(*ledger.Record)) *ledger.Record { c := d; f(&c); return &c }
	note(flightHash(h, 1, &d), "a delivery")
	note(flightHash(h, 2, &d), "tag")
	note(flightHash(&channel{channelRow: channelRow{Session: 2, Number: 1}}, 1, &d), "session")
	note(flightHash(&channel{channelRow: channelRow{Session: 1, Number: 2}}, 1, &d), "channel")
	note(flightHash(h, 1, change(func(r *ledger.Record) { r.Number = 2 })), "delivery's number")
	note(flightHash(h, 1, change(func(r *ledger.Record) { r.Size = 2 })), "delivery's size")
	note(flightHash(h, 1, change(func(r *ledger.Record) { r.Flags = 2 })), "delivery's flags")
	note(flightHash(h, 1, change(func(r *ledger.Record) { r.Queue = 2 })), "delivery's queue")
	note(flightHash(h, 1, change(func(r *ledger.Record) { r.Consumer = 2 })), "delivery's consumer")
	if flightHash(h, 1, change(func(r *ledger.Record) { r.Loc = 2 })) != flightHash(h, 1, &d) {
		t.Error("a location counts, which is local knowledge")
	}
}

func TestEachFieldOfANoteCounts(t *testing.T) {
	q, other := &queue{queueRow: queueRow{Vhost: 1, ID: 1}}, &queue{queueRow: queueRow{Vhost: 1, ID: 2}}
	hashes := map[uint64]bool{noteHash(other, &ready.Note{Number: 1, Expires: 1, Body: 1}): true}
	for _, x := range []ready.Note{{Number: 1, Expires: 1, Body: 1}, {Number: 2, Expires: 1, Body: 1}, {Number: 1, Expires: 2, Body: 1}, {Number: 1, Expires: 1, Body: 2}} {
		if h := noteHash(q, &x); hashes[h] {
			t.Errorf("%v hashes as another", x)
		} else {
			hashes[h] = true
		}
	}
}

func TestEveryFieldOfARowSurvivesTheStore(t *testing.T) {
	type coded interface{ code(*rowCoder) }
	populated(t).each(func(o object) {
		r := row(o)
		for _, f := range fieldsOf(r, r.Type().Name()) {
			if f.value.IsZero() { // what says that more follows becomes true
				change(f.value)
			}
		}
		wrote := reflect.NewAt(r.Type(), r.Addr().UnsafePointer())
		c := rowCoder{encoding: true}
		wrote.Interface().(coded).code(&c)
		read := reflect.New(r.Type())
		back := rowCoder{buf: c.buf}
		read.Interface().(coded).code(&back)
		if back.err != nil || len(back.buf) > 0 || !reflect.DeepEqual(read.Interface(), wrote.Interface()) {
			t.Errorf("%s came back as %+v, want %+v (%v)", r.Type(), read, wrote, back.err)
		}
	})
}

func TestDamagedRowsAreRefused(t *testing.T) {
	m := populated(t)
	rows := map[string][]byte{}
	m.Checkpoint(func(k, v []byte) { rows[string(k)] = append([]byte(nil), v...) }, func([]byte) {})
	for k, v := range rows {
		for cut := range len(v) {
			if err := New(1).Load([]byte(k), v[:cut]); err == nil && table(k[0]) > tableVhost {
				t.Errorf("row %x was taken without its last %d bytes", k, len(v)-cut)
			}
		}
	}
	if err := New(1).Load([]byte{200}, nil); err == nil {
		t.Error("a row of an unknown table was taken")
	}
	if err := New(1).Load(nil, nil); err == nil {
		t.Error("a row without a key was taken")
	}
}
