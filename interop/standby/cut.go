package standby

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"

	"github.com/understudy-mq/understudy/interop/harness"
)

// sameState compares the state that the former source's nodes had at the cut, which is worked out from their stopped disks, with
// what the promoted nodes say that theirs was there. A node with a checkpoint beyond the cut can no longer tell.
func (r *round) sameState(ctx context.Context) error {
	var at []string
	for _, g := range r.cut.Groups {
		if g.Position.Index > 0 {
			at = append(at, fmt.Sprintf("%d=%d", g.Group, g.Position.Index))
		}
	}
	told := 0
	for _, n := range r.Source.Members() {
		out, err := exec.CommandContext(ctx, harness.Binary(r.t), "fingerprint", "--data", n.Data, "--at", strings.Join(at, ",")).CombinedOutput()
		if err != nil {
			if strings.Contains(string(out), "the newest checkpoint") {
				continue
			}
			return fmt.Errorf("the state of source node %d at the cut: %w: %s", n.ID, err, out)
		}
		var rows []struct {
			Group       uint64 `json:"group"`
			Applied     uint64 `json:"applied"`
			Fingerprint string `json:"fingerprint"`
		}
		if err := json.Unmarshal(out, &rows); err != nil {
			return fmt.Errorf("the state of source node %d at the cut: %w in %s", n.ID, err, out)
		}
		behind := false
		for _, row := range rows {
			i := slices.IndexFunc(r.cut.Groups, func(g harness.PromotionGroup) bool { return g.Group == row.Group })
			behind = behind || row.Applied < r.cut.Groups[i].Position.Index
		}
		if behind {
			continue
		}
		for _, row := range rows {
			i := slices.IndexFunc(r.cut.Groups, func(g harness.PromotionGroup) bool { return g.Group == row.Group })
			if want := r.cut.Groups[i].Fingerprint; row.Fingerprint != want {
				return fmt.Errorf("group %d at its cut %d: source node %d has fingerprint %s, the promoted cluster %s", row.Group, row.Applied, n.ID, row.Fingerprint, want)
			}
		}
		told++
	}
	r.res.compared = fmt.Sprintf("states at the cut equal on %d of 3 source nodes", told)
	return nil
}

// compare says whether the promoted nodes were cut at the same place in the same state, and whether what they replayed up to there is
// the source's log, entry by entry. It ends both clusters.
func (r *round) compare(ctx context.Context) error {
	for i, p := range r.res.promotions {
		if err := sameCut(r.cut, p); err != nil {
			return fmt.Errorf("the report of promoted node %d: %w", i+1, err)
		}
	}
	r.Standby.KillAll()
	r.Source.KillAll()
	source, err := r.logs(ctx, r.Source)
	if err != nil {
		return err
	}
	promoted, err := r.logs(ctx, r.Standby)
	if err != nil {
		return err
	}
	cuts := map[uint64]uint64{}
	for _, g := range r.cut.Groups {
		cuts[g.Group] = g.Position.Index
	}
	r.res.entries, err = isPrefix(source, promoted, cuts, r.seeded)
	return err
}

// sameCut says whether two reports tell of the same cuts and states.
func sameCut(a, b harness.Promotion) error {
	if a.Kind != b.Kind || a.Generation != b.Generation || len(a.Groups) != len(b.Groups) {
		return fmt.Errorf("%s, generation %d with %d groups, and %s, generation %d with %d", a.Kind, a.Generation, len(a.Groups), b.Kind, b.Generation, len(b.Groups))
	}
	for i, g := range a.Groups {
		if o := b.Groups[i]; g.Group != o.Group || g.Position != o.Position || g.Fingerprint != o.Fingerprint || g.Fingerprint == "" {
			return fmt.Errorf("group %d cut at %+v in state %s, and group %d at %+v in state %s", g.Group, g.Position, g.Fingerprint, o.Group, o.Position, o.Fingerprint)
		}
	}
	return nil
}

// logged is an entry in the log of the cluster that made it.
type logged struct{ group, index, term uint64 }

// nodeLog is what a node's log holds: the sums of its own entries, and of those that it has replayed.
type nodeLog struct{ own, replayed map[logged]string }

// logs reads the logs of a stopped cluster's nodes.
func (r *round) logs(ctx context.Context, c *harness.Cluster) (all []nodeLog, err error) {
	for _, n := range c.Members() {
		cmd := exec.CommandContext(ctx, harness.Binary(r.t), "dump-log", "--data", n.Data, "--sums")
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		l, err := readLog(out)
		if err = errors.Join(err, cmd.Wait()); err != nil {
			return nil, fmt.Errorf("dump-log of node %d: %w", n.ID, err)
		}
		all = append(all, l)
	}
	return all, nil
}

// readLog reads what dump-log --sums prints.
func readLog(out io.Reader) (nodeLog, error) {
	l := nodeLog{own: map[logged]string{}, replayed: map[logged]string{}}
	for lines := json.NewDecoder(out); ; {
		var d struct {
			Kind               string
			Group, Index, Term uint64
			Sum                string
			Replays            *struct{ Index, Term uint64 }
		}
		err := lines.Decode(&d)
		switch {
		case err == io.EOF:
			return l, nil
		case err != nil:
			return l, err
		case d.Kind != "entry":
		case d.Replays != nil:
			l.replayed[logged{d.Group, d.Replays.Index, d.Replays.Term}] = d.Sum
		default:
			l.own[logged{d.Group, d.Index, d.Term}] = d.Sum
		}
	}
}

// isPrefix says whether what the promoted nodes replayed up to the cuts is what the source's nodes logged, without a gap: from the
// first entry on, or of a seeded standby from somewhere, if it has replayed anything of a group at all. It answers how
// many entries were compared.
func isPrefix(source, promoted []nodeLog, cuts map[uint64]uint64, seeded bool) (compared int, err error) {
	at := map[uint64][]uint64{} // by group, the indexes that were replayed
	for _, p := range promoted {
		for e, sum := range p.replayed {
			if e.index > cuts[e.group] {
				continue // not counted by the machine
			}
			found := false
			for _, s := range source {
				was, there := s.own[e]
				if there && was != sum {
					return compared, fmt.Errorf("entry %d of group %d, term %d, is %q in the promoted log and %q in the source's", e.index, e.group, e.term, sum, was)
				}
				found = found || there
			}
			if !found {
				return compared, fmt.Errorf("the promoted log has an entry %d of group %d, term %d, and the source's has not", e.index, e.group, e.term)
			}
			at[e.group] = append(at[e.group], e.index)
			compared++
		}
	}
	for group, cut := range cuts {
		slices.Sort(at[group])
		list := slices.Compact(at[group])
		if len(list) == 0 && seeded {
			continue
		}
		if len(list) == 0 || list[len(list)-1] != cut {
			return compared, fmt.Errorf("group %d was cut at entry %d, and its log does not have that", group, cut)
		}
		first := list[0]
		if !seeded && firstOf(source, group) != first {
			return compared, fmt.Errorf("of group %d the promoted log begins with the source's entry %d, not %d", group, first, firstOf(source, group))
		}
		if cut-first+1 != uint64(len(list)) {
			return compared, fmt.Errorf("of the entries %d to %d of group %d the promoted log has %d", first, cut, group, len(list))
		}
	}
	return compared, nil
}

// firstOf is the first entry of a group in the logs.
func firstOf(logs []nodeLog, group uint64) (first uint64) {
	for _, l := range logs {
		for e := range l.own {
			if e.group == group && (first == 0 || e.index < first) {
				first = e.index
			}
		}
	}
	return first
}
