package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// promotePatience is how long a promotion is waited for.
const promotePatience = 3 * time.Minute

func linkCommand() *cobra.Command {
	status := verb("status", "Show the standby link as a node sees it, on either side", cobra.NoArgs, linkStatus)
	promote := verb("promote", "Make this standby an ordinary cluster that serves clients; its source is given up", cobra.NoArgs,
		func(c *client, _ []string) error { return c.promote("/api/link/promote", nil) })
	promote.Long = `Make this standby an ordinary cluster that serves clients, for good. It is for a source that is lost; one that still
runs should hand over (understudy link switchover), which loses nothing. Any node of the standby may be asked, any number
of times. The answer comes once clients are served, and says what may be missing. The former source is fenced as soon as
it can be reached.`
	return group("link", "The standby link: a second cluster that takes over", status, promote, switchoverCommand(), rejoinCommand(), lostTailCommand())
}

func switchoverCommand() *cobra.Command {
	var drain float64
	cmd := verb("switchover", "Have the source hand over to this standby; nothing is lost", cobra.NoArgs, func(c *client, _ []string) error {
		s := api.Switchover{DrainSeconds: drain}
		if err := s.Check(); err != nil {
			return usageError{fmt.Errorf("--drain-timeout: %w", err)}
		}
		return c.promote("/api/link/switchover", s)
	})
	cmd.Long = `Have the source hand over to this standby. The source stops delivering, lets consumers acknowledge what they have for
--drain-timeout seconds at most, and fences itself; having everything up to the fences, the standby promotes itself. The
token of --link-token-file must be one that may fence (--link-fence-token-file on the source). Where it cannot be completed,
or this command is interrupted, it is cancelled and the source goes on, unless the standby is bound to promote itself already.`
	cmd.Flags().Float64Var(&drain, "drain-timeout", 5, fmt.Sprintf("seconds that consumers have to acknowledge, %d at most", api.DrainSecondsMax))
	return cmd
}

// promote asks for a promotion and shows the report.
func (c *client) promote(path string, body any) error {
	c.patience = promotePatience
	b, err := c.do(http.MethodPost, path, body)
	if err != nil {
		return err
	}
	if c.json {
		_, err = c.out.Write(b)
		return err
	}
	var p api.Promotion
	if err := json.Unmarshal(b, &p); err != nil {
		return fmt.Errorf("answer from %s is not understood: %w", c.url, err)
	}
	return c.promotionTable(p)
}

func (c *client) promotionTable(p api.Promotion) error {
	fmt.Fprintf(c.out, "cluster %s was promoted (%s), generation %d; source was %s\n", p.Cluster, p.Kind, p.Generation, p.Source)
	fmt.Fprintf(c.out, "sessions live at the cut: %d\n\n", p.SessionsLive)
	rows := make([][]any, len(p.Groups))
	for i, g := range p.Groups {
		missing := "nothing"
		switch {
		case p.NothingCanMissing:
		case g.MissingSince != nil:
			missing = "confirmed after " + moment(*g.MissingSince)
		default:
			missing = "not known: no contact"
		}
		rows[i] = []any{g.Group, g.Position.Index, g.Position.Term, moment(g.Position.Stamp), g.LagEntries, missing}
	}
	return table(c.out, []string{"GROUP", "INDEX", "TERM", "COMMITTED", "KNOWN MISSING", "MAY BE MISSING"}, rows)
}

func moment(millis int64) string {
	return time.UnixMilli(millis).UTC().Format("2006-01-02T15:04:05.000Z")
}

func linkStatus(c *client, _ []string) error {
	var l api.Link
	printed, err := c.get("/api/link", &l)
	if err != nil || printed {
		return err
	}
	fmt.Fprintf(c.out, "%s, generation %d", l.Role, l.Generation)
	step := ""
	if l.Switch != nil {
		step = l.Switch.Step
	}
	for _, s := range []struct{ what, text string }{
		{"source", l.Source}, {"planned switch", step}, {"fenced", l.FencedReason}, {"SPLIT BRAIN SUSPECTED", l.SplitBrainReason},
		{"feature level held back by", l.Level.HeldBy},
	} {
		if s.text != "" {
			fmt.Fprintf(c.out, "; %s: %s", s.what, s.text)
		}
	}
	fmt.Fprintln(c.out)
	if l.Role != "standby" && len(l.Readers)+len(l.Holds) == 0 {
		fmt.Fprintln(c.out, "no standby has asked this node since it started, and its log is kept for none")
	}
	for _, show := range []func(*client, api.Link) error{linkGroupTable, linkSourceTable, linkReaderTable, linkHoldTable} {
		if err := show(c, l); err != nil {
			return err
		}
	}
	return nil
}

func linkGroupTable(c *client, l api.Link) error {
	rows := make([][]any, len(l.Groups))
	for i, g := range l.Groups {
		reason := ""
		if g.Error != nil {
			reason = *g.Error
		}
		rows[i] = []any{g.Group, g.State, g.Position.Index, g.Position.Term, g.LagEntries, seconds(&g.LagSeconds), seconds(g.ContactAge), seconds(g.CompleteAge), reason}
	}
	return section(c, []string{"GROUP", "STATE", "INDEX", "TERM", "LAG", "LAG SECONDS", "CONTACT AGE", "COMPLETE AGE", "REASON"}, rows)
}

func linkSourceTable(c *client, l api.Link) error {
	rows := make([][]any, len(l.Sources))
	for i, s := range l.Sources {
		held := ""
		if s.Hold != nil {
			held = s.Hold.State
		}
		rows[i] = []any{s.Address, s.Role, seconds(s.ContactAge), s.Fenced, held, s.Error}
	}
	return section(c, []string{"SOURCE NODE", "ROLE", "CONTACT AGE", "FENCED", "HOLD", "ERROR"}, rows)
}

func linkReaderTable(c *client, l api.Link) error {
	rows := make([][]any, len(l.Readers))
	for i, r := range l.Readers {
		behind := make([]string, len(r.Positions))
		for j, p := range r.Positions {
			behind[j] = strconv.FormatUint(p.Group, 10) + ":" + strconv.FormatUint(p.Behind, 10)
		}
		rows[i] = []any{r.Name, seconds(&r.Idle), strings.Join(behind, " ")}
	}
	return section(c, []string{"READER", "IDLE SECONDS", "ENTRIES BEHIND BY GROUP"}, rows)
}

func linkHoldTable(c *client, l api.Link) error {
	rows := make([][]any, len(l.Holds))
	for i, h := range l.Holds {
		rows[i] = []any{h.Name, h.State, h.Holding, h.Held, h.Left, h.Reason}
	}
	return section(c, []string{"HOLD", "STATE", "HOLDING", "BYTES HELD", "BYTES LEFT", "REASON"}, rows)
}

// section is a table with a line before it, nothing at all without rows.
func section(c *client, titles []string, rows [][]any) error {
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(c.out)
	return table(c.out, titles, rows)
}

func seconds(s *float64) string {
	if s == nil {
		return "never"
	}
	return strconv.FormatFloat(*s, 'f', 1, 64)
}
