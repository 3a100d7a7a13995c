package simtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/understudy-mq/understudy/link"
	"github.com/understudy-mq/understudy/link/source"
)

const (
	nodes     = 3 // of each cluster
	groups    = 2
	sourceID  = "the-source"
	standbyID = "the-standby"

	// lagMost is how many milliseconds later a source node that does not lead (all but the first) may see an entry.
	lagMost = 4000

	// patience bounds, in simulated time, how long the standby may take for what it can do.
	patience = 2 * time.Minute
)

// World is a source and its standby.
type World struct {
	seed    uint64
	rng     *rand.Rand // what happens: the driver's alone
	network *network

	mu         sync.Mutex
	jitter     *rand.Rand // how long things take
	source     []*sourceGroup
	standby    []*standbyGroup
	apart      map[[2]int]bool      // nodes of the standby that do not reach one another
	lags       [nodes]time.Duration // of the source: how much later a node sees an entry, at most
	alone      [nodes]bool          // of the source: cut off from the others, which go on
	stopped    [nodes]bool          // of the source: does nothing, and does not know of it
	sourceDead bool
	published  int
	err        error

	links      []*link.Link
	conductors []*link.Conductor
	stop       func()

	// Met counts what a run met with.
	Met map[string]int
}

// New starts both clusters; dir is a folder for the run's files.
func New(seed uint64, dir string) (*World, error) {
	w := &World{
		seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), jitter: rand.New(rand.NewPCG(seed, 2)), network: newNetwork(), apart: map[[2]int]bool{},
		Met: map[string]int{},
	}
	for i := range groups {
		w.source = append(w.source, newSourceGroup())
		w.standby = append(w.standby, newStandbyGroup(i))
	}
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("a token"), 0o600); err != nil {
		return nil, err
	}
	return w, w.start(token)
}

// start runs the servers of the source's nodes, and the links and conductors of the standby's.
func (w *World) start(token string) error {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	var servers []*http.Server
	var addresses []string
	quiet := slog.New(slog.DiscardHandler)
	for node := range nodes {
		l := w.network.listen(node, fmt.Sprintf("source-%d:7500", node))
		addresses = append(addresses, l.address)
		tokens, err := source.OpenTokens(token, quiet)
		if err != nil {
			cancel()
			return err
		}
		logs := map[uint64]source.Log{}
		for _, g := range w.groups() {
			logs[g] = sourceLog{w, g, node}
		}
		n := sourceNode{w, node}
		s := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: source.New(source.Options{
			Node: uint64(node + 1), Logs: logs, Identity: n.identity, Notes: n, Switch: n, Fence: tokens, Logger: quiet,
		})}
		servers = append(servers, s)
		running.Go(func() { _ = s.Serve(l) })
	}
	for node := range nodes {
		m := member{w, node}
		replicas := map[uint64]link.Replica{}
		for _, g := range w.groups() {
			replicas[g] = replica{m, g}
		}
		l := link.New(link.Options{
			Addresses: addresses, TokenFile: token, Dial: w.network.dialer(node), Name: func() string { return "standby" }, Cluster: m.ID,
			Groups: m.Groups(), Replicas: replicas, Active: func() bool { return m.Standing(0).Role != link.Promoted }, Logger: quiet,
		})
		c := link.NewConductor(m, l, quiet)
		w.links, w.conductors = append(w.links, l), append(w.conductors, c)
		running.Go(func() { l.Run(ctx) })
		running.Go(func() { c.Run(ctx) })
	}
	w.stop = func() {
		w.heal()
		cancel()
		for _, l := range w.links {
			l.Close()
		}
		for _, s := range servers {
			_ = s.Close()
		}
		running.Wait()
		time.Sleep(time.Second) // a server does not wait for what its connections are at
	}
	return nil
}

func (w *World) groups() (ids []uint64) {
	for g := range uint64(groups) {
		ids = append(ids, g)
	}
	return ids
}

// fail keeps the first thing that went wrong. w.mu is held.
func (w *World) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

// after does something in a while, most at the latest, with w.mu held.
func (w *World) after(most time.Duration, do func()) {
	time.AfterFunc(time.Duration(w.jitter.Int64N(int64(most)+1)), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		do()
	})
}

// pause lets a little time pass, most at the most.
func (w *World) pause(most time.Duration) {
	w.mu.Lock()
	d := time.Duration(w.jitter.Int64N(int64(most)))
	w.mu.Unlock()
	time.Sleep(d)
}

// reaches says whether two nodes of the standby reach one another. w.mu is held.
func (w *World) reaches(a, b int) bool { return !w.apart[[2]int{min(a, b), max(a, b)}] }

// promotedGroup answers a group of the standby that is promoted. w.mu is held.
func (w *World) promotedGroup() (int, bool) {
	for i, g := range w.standby {
		if g.now.Role == link.Promoted {
			return i, true
		}
	}
	return 0, false
}

// live lets clients publish and trouble happen for a time.
func (w *World) live(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Duration(w.rng.IntN(20)) * time.Millisecond) {
		w.mu.Lock()
		for range w.rng.IntN(4) {
			w.publish(uint64(w.rng.IntN(groups)))
		}
		if w.rng.IntN(20) == 0 {
			w.trouble()
		}
		w.mu.Unlock()
	}
}

// trouble changes something for the worse or the better. w.mu is held.
func (w *World) trouble() {
	r := road{w.rng.IntN(nodes), w.rng.IntN(nodes)}
	switch w.rng.IntN(8) {
	case 0, 1:
		w.Met["cut roads"]++
		w.network.set(r, true)
	case 2, 3:
		w.network.set(r, false)
	case 4:
		w.Met["broken connections"]++
		w.network.broken(r)
	case 5:
		w.Met["new leaders"]++
		w.standby[w.rng.IntN(groups)].leader = w.rng.IntN(nodes)
	case 6:
		w.lags[1+w.rng.IntN(nodes-1)] = time.Duration(1+w.rng.IntN(lagMost)) * time.Millisecond
		a, b := w.rng.IntN(nodes), w.rng.IntN(nodes)
		if pair := [2]int{min(a, b), max(a, b)}; a != b {
			w.Met["nodes apart"]++
			w.apart[pair] = !w.apart[pair]
		}
	case 7:
		w.minority()
	}
}

// minority cuts a node of the source off from the others, or stops it: one at a time, so that a majority goes on. w.mu is held.
func (w *World) minority() {
	for n := range nodes {
		w.rejoin(n)
	}
	switch n := w.rng.IntN(nodes); w.rng.IntN(3) {
	case 0:
		w.Met["source nodes alone"]++
		w.alone[n] = true
	case 1:
		w.Met["source nodes stopped"]++
		w.stopped[n] = true
	}
}

// heal ends all trouble.
func (w *World) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.apart)
	clear(w.lags[:])
	for n := range nodes {
		w.rejoin(n)
	}
	for s := range nodes {
		for n := range nodes {
			w.network.set(road{n, s}, false)
		}
	}
}

// cutOff cuts the clusters from one another: the source is gone, or seems so.
func (w *World) cutOff() {
	for s := range nodes {
		for n := range nodes {
			w.network.set(road{n, s}, true)
		}
	}
}

// await waits until something holds, with w.mu held, or fails.
func (w *World) await(what string, holds func() bool) error {
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		w.mu.Lock()
		done, err := holds(), w.err
		w.mu.Unlock()
		switch {
		case err != nil:
			return err
		case done:
			return nil
		case time.Now().After(end):
			return errors.New("never: " + what)
		}
	}
}
