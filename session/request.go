package session

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/message"
)

// Bounds of what a client may say about its session, in bytes.
const (
	SessionIDMax          = 128
	SessionIncarnationMax = 128
	// connectionNameMax bounds the connection name where it becomes part of a session's key.
	connectionNameMax = 255
)

// defaultExpirySeconds is how long a session is kept after its connection was lost, where the client does not say.
const defaultExpirySeconds = 60

// Expect is what a client takes to be there when it names a session.
type Expect uint8

// The values of x-session-expect.
const (
	ExpectAny    Expect = iota // attach, creating it if absent
	ExpectResume               // refuse if it is unknown
	ExpectNew                  // discard what is there
)

// Dedup is by what the publishes of a session are told apart.
type Dedup uint8

// The values of x-session-dedup.
const (
	DedupHeader Dedup = iota // the header x-dedup-id, or x-pub-name and x-pub-seq
	DedupOff
	DedupMessageID // the message-id property, and what DedupHeader goes by
)

// Request is what a client asks of the broker about its session (client-properties of AMQP 0-9-1, open.properties of
// AMQP 1.0), completed by a policy where one applies. The zero Key asks for an anonymous session.
type Request struct {
	Key            string // within vhost and user; "" for an anonymous session
	Expiry         uint32 // seconds after the loss of the connection
	Incarnation    string // of the client's process, "" if it does not say
	KeepInFlight   bool   // what is in flight is not sent again: the client settles it by its old tags
	KeepOnClose    bool   // an orderly close does not end it
	KeepNumbers    bool   // deliveries carry x-message-number
	Expect         Expect
	Dedup          Dedup
	DedupHeaders   []string // further names of the header with the dedup id
	ConnectionName string   // as people may see it: without the id that it may carry
}

// The canonical names of what may be asked, with their other names behind them.
const (
	keyID          = "x-session-id"
	keyExpiry      = "x-session-expiry"
	keyIncarnation = "x-session-incarnation"
	keyInFlight    = "x-session-inflight"
	keyOnClose     = "x-session-on-close"
	keyExpect      = "x-session-expect"
	keyDedup       = "x-session-dedup"
	keyScope       = "x-session-scope"
	keyNumbers     = "x-session-numbers"

	qpidStart   = "qpid.session.start"
	qpidResume  = "qpid.session.resume"
	qpidTimeout = "qpid.session.timeout"

	keyPrefix  = "x-session-"
	qpidPrefix = "qpid.session."
	nameSuffix = ";session="
)

// wishes are what was asked, by canonical name, as text: some libraries can send nothing else.
type wishes map[string]string

// NoPolicy is the policy of a connection to which none applies.
var NoPolicy = core.SessionPolicy{Expiry: -1}

// ParseRequest reads a client's properties. clientID is its container-id (AMQP 1.0), "" where the protocol has none; policy is
// what applies to the connection: what the client says itself comes first. The error's text is for the client: it names the
// property, what is wrong and what is allowed.
func ParseRequest(properties message.Table, clientID string, policy core.SessionPolicy) (Request, error) {
	w, err := wishesOf(properties)
	if err != nil {
		return Request{}, err
	}
	name, suffix, suffixed := cutName(properties)
	if _, explicit := w[keyID]; suffixed && !explicit {
		w[keyID] = suffix
	}
	_, own := w[keyID]
	w.complete(&policy, name, clientID)
	r := Request{Expiry: defaultExpirySeconds, ConnectionName: name}
	id, named := w[keyID]
	if !named {
		return r, nil
	}
	what, most := keyID, SessionIDMax
	if !own {
		what, most = "the connection's name (by policy its session's id)", connectionNameMax
	}
	if err := printable(what, id, 1, most); err != nil {
		return Request{}, err
	}
	r.Key, r.DedupHeaders = id, policy.Headers
	return r, r.read(w, name)
}

// ConnectionName is the name that a client gives its connection, without the session id that it may carry: that is for
// the broker alone.
func ConnectionName(properties message.Table) string {
	name, _, _ := cutName(properties)
	return name
}

// Presentable are a client's properties as people may see them: all but those that name its session.
func Presentable(properties message.Table) message.Table {
	shown := make(message.Table, 0, len(properties))
	for _, f := range properties {
		switch {
		case strings.HasPrefix(f.Key, keyPrefix), strings.HasPrefix(f.Key, qpidPrefix):
			continue
		case f.Key == "connection_name":
			f.Value = ConnectionName(properties)
		}
		shown = append(shown, f)
	}
	return shown
}

func cutName(properties message.Table) (name, id string, ok bool) {
	v, _ := properties.Get("connection_name")
	name, _ = v.(string)
	if at := strings.LastIndex(name, nameSuffix); at >= 0 {
		return name[:at], name[at+len(nameSuffix):], true
	}
	return name, "", false
}

func wishesOf(properties message.Table) (wishes, error) {
	w := wishes{}
	for _, key := range [...]string{
		keyID, keyExpiry, keyIncarnation, keyInFlight, keyOnClose, keyExpect, keyDedup, keyScope, keyNumbers,
	} {
		if err := w.take(properties, key, key); err != nil {
			return nil, err
		}
	}
	if _, there := w[keyID]; !there {
		return w, w.takeQpid(properties)
	}
	return w, nil
}

// take takes one property under its canonical name.
func (w wishes) take(properties message.Table, key, canonical string) error {
	value, ok := properties.Get(key)
	if !ok || value == nil {
		return nil
	}
	text, ok := textOf(value)
	if !ok {
		return fmt.Errorf("%s is neither text, an integer nor a boolean", key)
	}
	w[canonical] = text
	return nil
}

// takeQpid takes the names that Qpid's design has: an id to start a session under, or one to resume.
func (w wishes) takeQpid(properties message.Table) error {
	if err := w.take(properties, qpidStart, keyID); err != nil {
		return err
	}
	if v, ok := properties.Get(qpidResume); ok && v != nil {
		w[keyExpect] = "resume"
	}
	if err := w.take(properties, qpidResume, keyID); err != nil {
		return err
	}
	if _, there := w[keyExpiry]; there {
		return nil
	}
	return w.take(properties, qpidTimeout, keyExpiry)
}

// complete adds what a policy gives and the client has not said.
func (w wishes) complete(policy *core.SessionPolicy, name, clientID string) {
	give := func(key, value string) {
		if _, said := w[key]; !said && value != "" {
			w[key] = value
		}
	}
	give(keyDedup, policy.Dedup)
	give(keyInFlight, policy.InFlight)
	if policy.Expiry >= 0 {
		give(keyExpiry, strconv.FormatInt(policy.Expiry, 10))
	}
	switch policy.Session {
	case "connection-name":
		give(keyID, name)
	case "client-id":
		give(keyID, cmp.Or(clientID, name)) // AMQP 0-9-1 has no other id of a client
	}
}

// textOf renders what a property may be: text, an integer or a boolean.
func textOf(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	case bool:
		return strconv.FormatBool(v), true
	case int8, uint8, int16, uint16, int32, uint32, int64, uint64:
		return fmt.Sprint(v), true
	case message.Timestamp:
		return strconv.FormatUint(uint64(v), 10), true
	}
	return "", false
}

// read reads all wishes but the id.
func (r *Request) read(w wishes, name string) error {
	var keepInFlight, keepOnClose, numbers, expect, dedup, scope int
	for _, choice := range []struct {
		key    string
		to     *int
		values []string // the first is the default
	}{
		{keyInFlight, &keepInFlight, []string{"redeliver", "keep"}},
		{keyOnClose, &keepOnClose, []string{"end", "keep"}},
		{keyNumbers, &numbers, []string{"false", "true"}},
		{keyExpect, &expect, []string{"any", "resume", "new"}},
		{keyDedup, &dedup, []string{"header", "off", "message-id"}},
		{keyScope, &scope, []string{"id", "connection-name"}},
	} {
		text, said := w[choice.key]
		if !said {
			continue
		}
		at := slices.Index(choice.values, text)
		if at < 0 {
			return fmt.Errorf("%s is %s, but must be one of %s", choice.key, quoted(text), strings.Join(choice.values, ", "))
		}
		*choice.to = at
	}
	r.KeepInFlight, r.KeepOnClose, r.KeepNumbers = keepInFlight == 1, keepOnClose == 1, numbers == 1
	r.Expect, r.Dedup = Expect(expect), Dedup(dedup)
	if scope == 1 {
		if err := printable("connection_name (for x-session-scope)", name, 1, connectionNameMax); err != nil {
			return err
		}
		r.Key += "|" + name
	}
	return r.readFree(w)
}

// readFree reads the wishes with values of the client's own.
func (r *Request) readFree(w wishes) error {
	r.Incarnation = w[keyIncarnation]
	if err := printable(keyIncarnation, r.Incarnation, 0, SessionIncarnationMax); err != nil {
		return err
	}
	text, said := w[keyExpiry]
	if !said {
		return nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil && strings.Trim(text, "0123456789") != "" || text == "" {
		return fmt.Errorf("%s is %s, but must be a number of seconds", keyExpiry, quoted(text))
	}
	r.Expiry = uint32(min(n, math.MaxUint32)) // of more digits too: the server has a maximum of its own
	return nil
}

// printable judges text of a client's: least to most bytes of letters that people can read, in ASCII or UTF-8.
func printable(what, text string, least, most int) error {
	switch {
	case len(text) < least:
		return fmt.Errorf("%s is empty: it takes %d to %d printable bytes; leave it out to go without a session", what, least, most)
	case len(text) > most:
		return fmt.Errorf("%s has %d bytes, at most %d are allowed", what, len(text), most)
	}
	for at, letter := range text {
		if letter == utf8.RuneError || !unicode.IsPrint(letter) {
			return fmt.Errorf("%s has byte 0x%02x at offset %d: only printable text is allowed", what, text[at], at)
		}
	}
	return nil
}

// quoted is a value for an error's text: cut, as it came from outside.
func quoted(text string) string {
	const most = 32
	if len(text) > most {
		return strconv.Quote(text[:most]) + "..."
	}
	return strconv.Quote(text)
}
