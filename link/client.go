package link

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/understudy-mq/understudy/link/wire"
)

const (
	dialTimeout   = 2 * time.Second
	answerTimeout = 3 * time.Second // beyond the wait that was asked for, until an answer begins or goes on
	idleTimeout   = time.Minute     // a connection that is not used
)

// refusal is an answer that is no success.
type refusal struct {
	status int
	reason string
}

func (r *refusal) Error() string {
	switch r.status {
	case http.StatusUnauthorized:
		return "the source refuses the token (--link-token-file here, --link-serve-token-file there)"
	case http.StatusNotFound:
		return "the source serves no link (--link-serve-token-file there)"
	case http.StatusBadRequest:
		if r.reason == "" { // none of a source's own
			return "the source serves its link with TLS (--link-tls-ca here)"
		}
	}
	return fmt.Sprintf("the source refuses: %s (%d)", r.reason, r.status)
}

// client speaks to source nodes.
type client struct {
	http   *http.Client
	scheme string
	token  string // the file
}

// newClient makes one; secure is nil for plain connections, dial for TCP.
func newClient(tokenFile string, secure *tls.Config, dial func(context.Context, string, string) (net.Conn, error)) *client {
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	c := &client{scheme: "http", token: tokenFile}
	if secure != nil {
		c.scheme = "https"
	}
	c.http = &http.Client{Transport: &http.Transport{
		DialContext:           dial,
		TLSClientConfig:       secure,
		TLSHandshakeTimeout:   dialTimeout,
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       idleTimeout,
		DisableCompression:    true,
		ResponseHeaderTimeout: wire.WaitMillisMax*time.Millisecond + answerTimeout,
	}}
	return c
}

// bearer is the first token of the file, read each time: it may be replaced while the node runs.
func (c *client) bearer() (string, error) {
	if c.token == "" {
		return "", nil
	}
	b, err := os.ReadFile(c.token)
	if err != nil {
		return "", fmt.Errorf("link token: %w", err)
	}
	for _, line := range strings.Split(string(b), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			return line, nil
		}
	}
	return "", fmt.Errorf("link token: %s holds none", c.token)
}

// post sends a request and answers the response of a success; its body is the caller's to close. Errors: *refusal, or why
// there was no answer.
func (c *client) post(ctx context.Context, address, path string, body any) (*http.Response, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("link request: %w", err)
	}
	return c.do(ctx, http.MethodPost, address, path, bytes.NewReader(b), nil)
}

func (c *client) do(ctx context.Context, method, address, path string, body io.Reader, header http.Header) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.scheme+"://"+address+path, body)
	if err != nil {
		return nil, fmt.Errorf("link request: %w", err)
	}
	for k, v := range header {
		r.Header[k] = v
	}
	r.Header.Set("Content-Type", "application/json")
	token, err := c.bearer()
	if err != nil {
		return nil, err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("no answer from %s: %w%s", address, bare(err), remedy(err))
	}
	if answer.StatusCode/100 == 2 {
		return answer, nil
	}
	defer answer.Body.Close()
	var why wire.Refusal
	_ = wire.ReadJSON(answer.Body, &why)
	return nil, &refusal{answer.StatusCode, why.Reason}
}

// remedy names the flags where TLS is the trouble; "" where it is not. Alerts of the other side have no type of their own.
func remedy(err error) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "tls: certificate required"):
		return " (it asks for a certificate: --link-tls-cert and --link-tls-key here)"
	case strings.Contains(text, "remote error: tls:"):
		return " (it does not take the certificate of --link-tls-cert here: has the authority of --link-tls-ca there signed it?)"
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return " (the authority of --link-tls-ca here has to have signed the certificate of --link-tls-cert there, which has to name this host)"
	case strings.Contains(text, "gave HTTP response to HTTPS client"):
		return " (it serves its link without TLS: leave --link-tls-ca out here, or give --link-tls-cert there)"
	}
	return ""
}

// bare is an HTTP client's error without the address, which is named already.
func bare(err error) error {
	type wrapper interface{ Unwrap() error }
	if w, ok := err.(wrapper); ok && w.Unwrap() != nil {
		return w.Unwrap()
	}
	return err
}

// call sends a request and decodes the answer into v.
func (c *client) call(ctx context.Context, address, path string, body, v any) error {
	answer, err := c.post(ctx, address, path, body)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return wire.ReadJSON(answer.Body, v)
}

// answer is a read's, as it comes in. A pause of answerTimeout ends it.
type answer struct {
	*wire.Reader
	body   io.ReadCloser
	timer  *time.Timer
	cancel context.CancelFunc
}

var errPaused = errors.New("the source stopped in the middle of an answer")

// read asks a source node for entries.
func (c *client) read(ctx context.Context, address string, q wire.ReadRequest) (*answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(time.Duration(q.WaitMillis)*time.Millisecond+answerTimeout, func() { cancel(errPaused) })
	end := func() { timer.Stop(); cancel(nil) }
	r, err := c.post(ctx, address, wire.PathRead, q)
	if err != nil {
		defer end()
		return nil, caused(ctx, err)
	}
	stream, err := wire.NewReader(r.Body)
	if err != nil {
		defer end()
		_ = r.Body.Close()
		return nil, caused(ctx, err)
	}
	return &answer{Reader: stream, body: r.Body, timer: timer, cancel: end}, nil
}

// caused prefers the reason for which a context was ended.
func caused(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// next is the next item; io.EOF at the whole answer's end.
func (a *answer) next() (wire.Item, error) {
	a.timer.Reset(answerTimeout)
	return a.Next()
}

func (a *answer) close() {
	_ = a.body.Close()
	a.cancel()
}
