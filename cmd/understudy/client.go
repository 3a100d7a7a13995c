package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/config"
)

const (
	callTimeout    = 30 * time.Second
	answerBytesMax = 256 << 20
)

// client asks a node's admin API.
type client struct {
	url, user string
	json      bool
	out       io.Writer
	patience  time.Duration // for an answer
}

// flags declares the flags of every verb that asks the admin API.
func (c *client) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.url, "admin-url", "http://127.0.0.1:15672", "admin API of a running node (or UNDERSTUDY_ADMIN_URL)")
	cmd.Flags().StringVar(&c.user, "user", "guest:guest", "USER:PASSWORD (or UNDERSTUDY_USER, which others of this machine cannot see)")
	cmd.Flags().BoolVar(&c.json, "json", false, "print the admin API's JSON")
}

// fromEnvironment gives flags of the verbs that were not given the values of their variables: --admin-url that of UNDERSTUDY_ADMIN_URL.
// A password in an argument can be seen by every user of the machine.
func fromEnvironment(cmd *cobra.Command, _ []string) error {
	for _, name := range []string{"admin-url", "user", "amqp-url"} {
		variable := config.Variable(name)
		f, value := cmd.Flags().Lookup(name), os.Getenv(variable)
		if f == nil || f.Changed || value == "" {
			continue
		}
		if err := f.Value.Set(value); err != nil {
			return usageError{fmt.Errorf("%s: %w", variable, err)}
		}
	}
	return nil
}

// verb is a command that asks the admin API.
func verb(use, short string, args cobra.PositionalArgs, run func(c *client, args []string) error) *cobra.Command {
	c := &client{}
	cmd := &cobra.Command{Use: use, Short: short, Args: arguments(args)}
	c.flags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.out = cmd.OutOrStdout()
		return run(c, args)
	}
	return cmd
}

// do sends a request and answers the body of a success. Errors carry the reason that the node gave.
func (c *client) do(method, path string, body any) ([]byte, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	text, err := c.ask(ctx, method, path, body)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("interrupted: %s may have done what it was asked for, or do it yet", c.url)
	}
	return text, err
}

func (c *client) ask(ctx context.Context, method, path string, body any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.patience, callTimeout))
	defer cancel()
	r, err := c.request(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		var where *url.Error
		if errors.As(err, &where) {
			err = where.Err
		}
		return nil, fmt.Errorf("no answer from %s: %w (is the node running? --admin-url names another)", c.url, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, answerBytesMax))
	if err != nil {
		return nil, fmt.Errorf("answer from %s: %w", c.url, err)
	}
	if answer.StatusCode/100 != 2 {
		return nil, c.refused(path, answer, text)
	}
	return text, nil
}

func (c *client) request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	if strings.Contains(path, "//") || strings.HasSuffix(path, "/") {
		return nil, usageError{errors.New("a name is empty")} // no path of the API can say it
	}
	if u, err := url.Parse(c.url); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, usageError{fmt.Errorf("--admin-url: %q is not http://HOST:PORT", c.url)}
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(c.url, "/")+path, bytes.NewReader(b))
	if err != nil {
		return nil, usageError{fmt.Errorf("--admin-url: %w", err)}
	}
	user, password, ok := strings.Cut(c.user, ":")
	if !ok {
		return nil, usageError{errors.New("--user is USER:PASSWORD")}
	}
	r.SetBasicAuth(user, password)
	r.Header.Set("Content-Type", "application/json")
	return r, nil
}

// notFound is RabbitMQ's reason where a path names something that is not there. It does not say what.
const notFound = "Not Found"

func (c *client) refused(path string, answer *http.Response, body []byte) error {
	var e api.Error
	status := strings.ToLower(answer.Status)
	switch {
	case json.Unmarshal(body, &e) == nil && len(e.Faults) > 0:
		return fmt.Errorf("%s:\n%s", status, strings.Join(e.Faults, "\n"))
	case e.Reason == notFound:
		return fmt.Errorf("%s: nothing is at %s: check the names", status, path)
	case e.Reason == "":
		return fmt.Errorf("the node answered %s", answer.Status)
	case answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden:
		user, _, _ := strings.Cut(c.user, ":")
		return fmt.Errorf("%s: %s (asked as %q; --user USER:PASSWORD asks as another)", status, e.Reason, user)
	}
	return fmt.Errorf("%s: %s", status, e.Reason)
}

// get asks for path into v; with --json it prints the answer as it is and says so.
func (c *client) get(path string, v any) (printed bool, err error) {
	b, err := c.do(http.MethodGet, path, nil)
	if err != nil {
		return false, err
	}
	if c.json {
		_, err = c.out.Write(b)
		return true, err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return false, fmt.Errorf("answer from %s is not understood: %w", c.url, err)
	}
	return false, nil
}

// table prints rows under their titles.
func table(out io.Writer, titles []string, rows [][]any) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(titles, "\t"))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, v := range row {
			cells[i] = cell(v)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

// cell keeps control characters of names from the terminal.
func cell(v any) string {
	text := fmt.Sprint(v)
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '.'
		}
		return r
	}, text)
}
