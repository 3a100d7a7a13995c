package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/understudy-mq/understudy/link/wire"
)

// ErrRefused is what an error wraps that does not pass: the cluster has not, or no longer, what it is asked for.
var ErrRefused = errors.New("the source refuses")

// Cuts are where a former source was cut, and how many bytes came over the link to tell that.
type Cuts struct {
	wire.Rewind
	Bytes int64
}

// AskCuts asks each node of the cluster that was promoted in the place of the cluster former where that was cut. Each that
// answers keeps its log from there on for the reader. Errors: no node told, with why; ErrRefused where all that answered
// have refused.
func AskCuts(ctx context.Context, o SeedOptions, former string) (told Cuts, err error) {
	c := newClient(o.TokenFile, o.TLS, nil)
	defer c.http.CloseIdleConnections()
	var refused, failed []error
	for _, a := range o.Addresses {
		r, err := c.cuts(ctx, a, wire.RewindRequest{Reader: o.Reader, Standby: o.Standby, Cluster: former}, &told.Bytes)
		switch no := (*refusal)(nil); {
		case err == nil:
			told.Rewind = r
		case errors.As(err, &no) && no.status == http.StatusConflict:
			refused = append(refused, fmt.Errorf("%w: %s: %s", ErrRefused, a, no.reason))
		default:
			failed = append(failed, err)
		}
	}
	switch {
	case told.Cluster != "":
		return told, nil
	case len(refused) > 0:
		return told, errors.Join(refused...)
	}
	return told, errors.Join(failed...)
}

// cuts asks one node. What comes is counted.
func (c *client) cuts(ctx context.Context, address string, q wire.RewindRequest, bytes *int64) (r wire.Rewind, err error) {
	ctx, cancel := context.WithTimeout(ctx, seedCall)
	defer cancel()
	answer, err := c.post(ctx, address, wire.PathRewind, q)
	if err != nil {
		return r, err
	}
	defer answer.Body.Close()
	if err := wire.ReadJSON(io.TeeReader(answer.Body, (*tally)(bytes)), &r); err != nil {
		return r, fmt.Errorf("%s: %w", address, err)
	}
	if len(r.Cuts) == 0 || len(r.Cuts) > seedGroups || r.Cluster == "" {
		return r, fmt.Errorf("%s: %w: %d cuts of cluster %q", address, wire.ErrDamaged, len(r.Cuts), r.Cluster)
	}
	return r, nil
}

// tally counts what is written to it.
type tally int64

func (t *tally) Write(b []byte) (int, error) {
	*t += tally(len(b))
	return len(b), nil
}
