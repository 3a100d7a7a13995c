package session

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/core/message"
)

func properties(pairs ...any) message.Table {
	var t message.Table
	for i := 0; i < len(pairs); i += 2 {
		t = append(t, message.Field{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return t
}

func TestRequestReadsWhatClientsSay(t *testing.T) {
	for name, c := range map[string]struct {
		properties, policy message.Table
		want               Request
	}{
		"nothing is an anonymous session": {
			properties: properties("product", "x", "connection_name", "billing"),
			want:       Request{Expiry: 60, ConnectionName: "billing"},
		},
		"an id alone has the defaults": {
			properties: properties("x-session-id", "a"),
			want:       Request{Key: "a", Expiry: 60},
		},
		"all as text": {
			properties: properties("x-session-id", "a", "x-session-expiry", "90", "x-session-incarnation", "i", "x-session-inflight", "keep",
				"x-session-on-close", "keep", "x-session-expect", "resume", "x-session-dedup", "message-id", "x-session-numbers", "true"),
			want: Request{Key: "a", Expiry: 90, Incarnation: "i", KeepInFlight: true, KeepOnClose: true, KeepNumbers: true,
				Expect: ExpectResume, Dedup: DedupMessageID},
		},
		"integers and booleans where a library has them": {
			properties: properties("x-session-id", int64(7), "x-session-expiry", int32(90), "x-session-numbers", true, "x-session-incarnation", uint8(3)),
			want:       Request{Key: "7", Expiry: 90, KeepNumbers: true, Incarnation: "3"},
		},
		"byte arrays are text": {
			properties: properties("x-session-id", []byte("a"), "x-session-expect", []byte("new")),
			want:       Request{Key: "a", Expiry: 60, Expect: ExpectNew},
		},
		"void is unsaid": {
			properties: properties("x-session-id", nil),
			want:       Request{Expiry: 60},
		},
		"128 bytes are an id": {
			properties: properties("x-session-id", strings.Repeat("i", 128)),
			want:       Request{Key: strings.Repeat("i", 128), Expiry: 60},
		},
		"letters beyond ASCII print too": {
			properties: properties("x-session-id", "größe"),
			want:       Request{Key: "größe", Expiry: 60},
		},
		"an expiry beyond 32 bits is the largest": {
			properties: properties("x-session-id", "a", "x-session-expiry", "99999999999999999999999"),
			want:       Request{Key: "a", Expiry: math.MaxUint32},
		},
		"an expiry of nothing is none at all": {
			properties: properties("x-session-id", "a", "x-session-expiry", 0+int32(0)),
			want:       Request{Key: "a"},
		},
		"Qpid starts": {
			properties: properties("qpid.session.start", "q", "qpid.session.timeout", int32(5)),
			want:       Request{Key: "q", Expiry: 5},
		},
		"Qpid resumes": {
			properties: properties("qpid.session.resume", "q"),
			want:       Request{Key: "q", Expiry: 60, Expect: ExpectResume},
		},
		"our names come before Qpid's": {
			properties: properties("qpid.session.resume", "q", "qpid.session.timeout", int32(5), "x-session-id", "a"),
			want:       Request{Key: "a", Expiry: 60},
		},
		"the connection's name carries an id": {
			properties: properties("connection_name", "billing;session=s 1"),
			want:       Request{Key: "s 1", Expiry: 60, ConnectionName: "billing"},
		},
		"the id of its own comes before the name's": {
			properties: properties("connection_name", "billing;session=s1", "x-session-id", "a"),
			want:       Request{Key: "a", Expiry: 60, ConnectionName: "billing"},
		},
		"the last suffix counts": {
			properties: properties("connection_name", "a;session=b;session=c"),
			want:       Request{Key: "c", Expiry: 60, ConnectionName: "a;session=b"},
		},
		"scope by connection name": {
			properties: properties("connection_name", "worker-1", "x-session-id", "app", "x-session-scope", "connection-name"),
			want:       Request{Key: "app|worker-1", Expiry: 60, ConnectionName: "worker-1"},
		},
		"a policy gives the session": {
			properties: properties("connection_name", "billing"),
			policy: properties("session", "connection-name", "session-expiry", int64(120), "session-dedup", "message-id", "session-inflight", "keep",
				"session-dedup-header", "x-deduplication-header, _AMQ_DUPL_ID"),
			want: Request{Key: "billing", Expiry: 120, Dedup: DedupMessageID, KeepInFlight: true, ConnectionName: "billing",
				DedupHeaders: []string{"x-deduplication-header", "_AMQ_DUPL_ID"}},
		},
		"the client's own word comes before a policy's": {
			properties: properties("connection_name", "billing", "x-session-id", "a", "x-session-expiry", "1"),
			policy:     properties("session", "connection-name", "session-expiry", int64(120), "session-inflight", "keep"),
			want:       Request{Key: "a", Expiry: 1, KeepInFlight: true, ConnectionName: "billing"},
		},
		"a policy by a name that is not there gives none": {
			policy: properties("session", "connection-name"),
			want:   Request{Expiry: 60},
		},
		"AMQP 0-9-1 has no client id but the name": {
			properties: properties("connection_name", "billing"),
			policy:     properties("session", "client-id"),
			want:       Request{Key: "billing", Expiry: 60, ConnectionName: "billing"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseRequest(c.properties, "", c.policy)
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Fatalf("got %+v, %v\nwant %+v", got, err, c.want)
			}
		})
	}
}

func TestRequestRefusesBadValuesWithAClearText(t *testing.T) {
	for name, c := range map[string]struct {
		properties, policy message.Table
		text               string
	}{
		"no bytes":            {properties("x-session-id", ""), nil, "x-session-id is empty: it takes 1 to 128 printable bytes; leave it out to go without a session"},
		"129 bytes":           {properties("x-session-id", strings.Repeat("i", 129)), nil, "x-session-id has 129 bytes, at most 128 are allowed"},
		"64 KiB":              {properties("x-session-id", strings.Repeat("i", 64<<10)), nil, "x-session-id has 65536 bytes, at most 128 are allowed"},
		"binary":              {properties("x-session-id", "a\x00b"), nil, "x-session-id has byte 0x00 at offset 1: only printable text is allowed"},
		"not UTF-8":           {properties("x-session-id", "a\xffb"), nil, "x-session-id has byte 0xff at offset 1: only printable text is allowed"},
		"a table":             {properties("x-session-id", message.Table{}), nil, "x-session-id is neither text, an integer nor a boolean"},
		"a float":             {properties("x-session-id", "a", "x-session-expiry", 1.5), nil, "x-session-expiry is neither text, an integer nor a boolean"},
		"an empty suffix":     {properties("connection_name", "a;session="), nil, "x-session-id is empty: it takes 1 to 128 printable bytes; leave it out to go without a session"},
		"a negative expiry":   {properties("x-session-id", "a", "x-session-expiry", int32(-1)), nil, `x-session-expiry is "-1", but must be a number of seconds`},
		"an expiry in words":  {properties("x-session-id", "a", "x-session-expiry", "1 minute"), nil, `x-session-expiry is "1 minute", but must be a number of seconds`},
		"no expiry":           {properties("x-session-id", "a", "x-session-expiry", ""), nil, `x-session-expiry is "", but must be a number of seconds`},
		"another inflight":    {properties("x-session-id", "a", "x-session-inflight", "kept"), nil, `x-session-inflight is "kept", but must be one of redeliver, keep`},
		"another expectation": {properties("x-session-id", "a", "x-session-expect", strings.Repeat("x", 99)), nil, `x-session-expect is "` + strings.Repeat("x", 32) + `"..., but must be one of any, resume, new`},
		"another dedup":       {properties("x-session-id", "a", "x-session-dedup", true), nil, `x-session-dedup is "true", but must be one of header, off, message-id`},
		"scope without name":  {properties("x-session-id", "a", "x-session-scope", "connection-name"), nil, "connection_name (for x-session-scope) is empty: it takes 1 to 255 printable bytes; leave it out to go without a session"},
		"a long incarnation":  {properties("x-session-id", "a", "x-session-incarnation", strings.Repeat("x", 129)), nil, "x-session-incarnation has 129 bytes, at most 128 are allowed"},
		"a policy's key":      {properties("connection_name", "a"), properties("session", "name"), `policy: session is "name", which is neither connection-name nor client-id`},
		"a policy's name":     {properties("connection_name", strings.Repeat("x", 256)), properties("session", "connection-name"), "the connection's name (by policy its session's id) has 256 bytes, at most 255 are allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := ParseRequest(c.properties, "", c.policy); err == nil || err.Error() != c.text {
				t.Fatalf("got %+v, %v\nwant %s", got, err, c.text)
			}
		})
	}
}

func TestRequestTakesAContainerID(t *testing.T) {
	got, err := ParseRequest(nil, "c1", properties("session", "client-id"))
	if err != nil || got.Key != "c1" {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add(message.AppendTable(nil, properties("x-session-id", "a", "x-session-expiry", int32(3), "x-session-dedup", "off")), []byte{})
	f.Add(message.AppendTable(nil, properties("connection_name", "a;session=b")), message.AppendTable(nil, properties("session", "client-id")))
	f.Fuzz(func(t *testing.T, own, policy []byte) {
		a, errA := message.ParseTable(own)
		b, errB := message.ParseTable(policy)
		if errA != nil || errB != nil {
			return
		}
		r, err := ParseRequest(a, "", b)
		if err != nil && len(err.Error()) > 400 {
			t.Fatalf("an error of %d bytes", len(err.Error()))
		}
		if len(r.Key) > SessionIDMax+1+connectionNameMax || len(r.Incarnation) > SessionIncarnationMax {
			t.Fatalf("unbounded: %+v", r)
		}
	})
}
