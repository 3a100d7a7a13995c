package v091

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
)

func TestAClientThatGoesWithoutAWordIsLoggedAndNoOther(t *testing.T) {
	for name, c := range map[string]struct {
		goes func(p *peer)
		want string // in the one line; "" for none
	}{
		"silent":       {func(p *peer) { p.open(5); <-p.served }, `nothing came of it for two of its heartbeats" connection="pipe -> pipe" user=guest heartbeat=5s`},
		"broken":       {func(p *peer) { p.open(0); _ = p.nc.Close() }, `gone without closing its connection" connection="pipe -> pipe" user=guest error=EOF`},
		"orderly":      {func(p *peer) { p.open(0); p.send(frame(0, &wire.ConnectionClose{})); _ = p.nc.Close() }, ""},
		"never opened": {func(p *peer) { p.send(startOk("guest", "guest")); _ = p.nc.Close() }, ""},
		"sent away":    {func(p *peer) { p.open(0); p.conn.Close("node is being stopped"); synctest.Wait(); _ = p.nc.Close() }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				p := connect(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
				c.goes(p)
				<-p.served
				if got := log.String(); strings.Count(got, "\n") != min(1, len(c.want)) || !strings.Contains(got, c.want) {
					t.Errorf("logged %q, want %q", got, c.want)
				}
			})
		})
	}
}
