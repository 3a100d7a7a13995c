package session

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/core"
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
		properties message.Table
		policy     core.SessionPolicy
		want       Request
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
			policy: core.SessionPolicy{Session: "connection-name", Expiry: 120, Dedup: "message-id", InFlight: "keep",
				Headers: []string{"x-deduplication-header", "_AMQ_DUPL_ID"}},
			want: Request{Key: "billing", Expiry: 120, Dedup: DedupMessageID, KeepInFlight: true, ConnectionName: "billing",
				DedupHeaders: []string{"x-deduplication-header", "_AMQ_DUPL_ID"}},
		},
		"the client's own word comes before a policy's": {
			properties: properties("connection_name", "billing", "x-session-id", "a", "x-session-expiry", "1"),
			policy:     core.SessionPolicy{Session: "connection-name", Expiry: 120, InFlight: "keep"},
			want:       Request{Key: "a", Expiry: 1, KeepInFlight: true, ConnectionName: "billing"},
		},
		"a policy by a name that is not there gives none": {
			policy: core.SessionPolicy{Session: "connection-name", Expiry: -1},
			want:   Request{Expiry: 60},
		},
		"AMQP 0-9-1 has no client id but the name": {
			properties: properties("connection_name", "billing"),
			policy:     core.SessionPolicy{Session: "client-id", Expiry: 0},
			want:       Request{Key: "billing", ConnectionName: "billing"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if reflect.DeepEqual(c.policy, core.SessionPolicy{}) {
				c.policy = NoPolicy
			}
			got, err := ParseRequest(c.properties, "", c.policy)
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Fatalf("got %+v, %v\nwant %+v", got, err, c.want)
			}
		})
	}
}

func TestRequestRefusesBadValuesWithAClearText(t *testing.T) {
	for name, c := range map[string]struct {
		properties message.Table
		text       string
	}{
		"no bytes":            {properties("x-session-id", ""), "x-session-id is empty: it takes 1 to 128 printable bytes; leave it out to go without a session"},
		"129 bytes":           {properties("x-session-id", strings.Repeat("i", 129)), "x-session-id has 129 bytes, at most 128 are allowed"},
		"64 KiB":              {properties("x-session-id", strings.Repeat("i", 64<<10)), "x-session-id has 65536 bytes, at most 128 are allowed"},
		"binary":              {properties("x-session-id", "a\x00b"), "x-session-id has byte 0x00 at offset 1: only printable text is allowed"},
		"not UTF-8":           {properties("x-session-id", "a\xffb"), "x-session-id has byte 0xff at offset 1: only printable text is allowed"},
		"a table":             {properties("x-session-id", message.Table{}), "x-session-id is neither text, an integer nor a boolean"},
		"a float":             {properties("x-session-id", "a", "x-session-expiry", 1.5), "x-session-expiry is neither text, an integer nor a boolean"},
		"an empty suffix":     {properties("connection_name", "a;session="), "x-session-id is empty: it takes 1 to 128 printable bytes; leave it out to go without a session"},
		"a negative expiry":   {properties("x-session-id", "a", "x-session-expiry", int32(-1)), `x-session-expiry is "-1", but must be a number of seconds`},
		"an expiry in words":  {properties("x-session-id", "a", "x-session-expiry", "1 minute"), `x-session-expiry is "1 minute", but must be a number of seconds`},
		"no expiry":           {properties("x-session-id", "a", "x-session-expiry", ""), `x-session-expiry is "", but must be a number of seconds`},
		"another inflight":    {properties("x-session-id", "a", "x-session-inflight", "kept"), `x-session-inflight is "kept", but must be one of redeliver, keep`},
		"another expectation": {properties("x-session-id", "a", "x-session-expect", strings.Repeat("x", 99)), `x-session-expect is "` + strings.Repeat("x", 32) + `"..., but must be one of any, resume, new`},
		"another dedup":       {properties("x-session-id", "a", "x-session-dedup", true), `x-session-dedup is "true", but must be one of header, off, message-id`},
		"scope without name":  {properties("x-session-id", "a", "x-session-scope", "connection-name"), "connection_name (for x-session-scope) is empty: it takes 1 to 255 printable bytes; leave it out to go without a session"},
		"a long incarnation":  {properties("x-session-id", "a", "x-session-incarnation", strings.Repeat("x", 129)), "x-session-incarnation has 129 bytes, at most 128 are allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := ParseRequest(c.properties, "", NoPolicy); err == nil || err.Error() != c.text {
				t.Fatalf("got %+v, %v\nwant %s", got, err, c.text)
			}
		})
	}
}

func TestRequestTakesAContainerID(t *testing.T) {
	policy := core.SessionPolicy{Session: "client-id", Expiry: -1}
	got, err := ParseRequest(nil, "c1", policy)
	if err != nil || got.Key != "c1" {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestRequestRefusesANameThatIsTooLongForAPolicy(t *testing.T) {
	policy := core.SessionPolicy{Session: "connection-name", Expiry: -1}
	got, err := ParseRequest(properties("connection_name", strings.Repeat("x", 256)), "", policy)
	if want := "the connection's name (by policy its session's id) has 256 bytes, at most 255 are allowed"; err == nil || err.Error() != want {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add(message.AppendTable(nil, properties("x-session-id", "a", "x-session-expiry", int32(3), "x-session-dedup", "off")), "")
	f.Add(message.AppendTable(nil, properties("connection_name", "a;session=b")), "client-id")
	f.Fuzz(func(t *testing.T, own []byte, by string) {
		a, err := message.ParseTable(own)
		if err != nil {
			return
		}
		r, err := ParseRequest(a, "", core.SessionPolicy{Session: by, Expiry: -1})
		if err != nil && len(err.Error()) > 400 {
			t.Fatalf("an error of %d bytes", len(err.Error()))
		}
		if len(r.Key) > SessionIDMax+1+connectionNameMax || len(r.Incarnation) > SessionIncarnationMax {
			t.Fatalf("unbounded: %+v", r)
		}
	})
}

func TestWhatNamesASessionIsNotShown(t *testing.T) {
	got := Presentable(properties("product", "x", "x-session-id", "secret", "x-session-incarnation", "i", "qpid.session.start", "secret",
		"connection_name", "billing;session=secret", "capabilities", message.Table{{Key: "basic.nack", Value: true}}))
	want := properties("product", "x", "connection_name", "billing", "capabilities", message.Table{{Key: "basic.nack", Value: true}})
	if !reflect.DeepEqual(got, want) {
		t.Errorf("shown: %v", got)
	}
}
