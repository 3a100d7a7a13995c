package harness

import (
	"fmt"
	"math/rand/v2"

	"github.com/understudy-mq/understudy/cmd/powercut"
)

// keeps are how much of what is not synced outlasts a cut, in percent: nothing of it, in every other one.
var keeps = []int{0, 0, 30, 80}

// PowerLoss is what cuts have taken from nodes.
type PowerLoss struct {
	Cuts int
	powercut.Loss
}

// Add adds another loss.
func (l *PowerLoss) Add(more PowerLoss) {
	l.Cuts += more.Cuts
	l.Names += more.Names
	l.Blocks += more.Blocks
}

func (l PowerLoss) String() string {
	return fmt.Sprintf("%d power cuts took %d blocks and %d names", l.Cuts, l.Blocks, l.Names)
}

// CutPower ends nodes at the same moment, and takes from each one's disk what it had not synced, or some of it. Their cluster must be
// Cuttable. Nodes that do not run lose their power too.
func CutPower(nodes []*Node, rng *rand.Rand) (all PowerLoss, err error) {
	kill9(nodes)
	for _, n := range nodes {
		loss, err := powercut.Cut(n.Data, rng.Uint64(), keeps[rng.IntN(len(keeps))])
		if err != nil {
			return all, fmt.Errorf("node %d: %w", n.ID, err)
		}
		all.Add(PowerLoss{1, loss})
	}
	return all, nil
}
