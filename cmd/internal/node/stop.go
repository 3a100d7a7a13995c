package node

import (
	"context"
	"errors"
	"fmt"
)

// Stop drains the node: it is no longer ready, its clients are closed with 320 and resume elsewhere, leadership moves to
// other nodes, and what is in memory is written. It ends with ctx at the latest, saying what was not done by then.
func (n *Node) Stop(ctx context.Context) error {
	n.draining.Store(true)
	n.log.Info("stopping", "clients", len(n.Connections()))
	n.clients.drain(ctx, "node is being stopped")
	done := make(chan error, 1)
	go func() {
		err := n.raft.Stop(ctx)
		n.stop()
		n.background.Wait()
		done <- errors.Join(err, n.admin.Close(), n.release())
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the stop is not complete: %w", ctx.Err())
	}
}

// release gives back what start has taken, as far as it got.
func (n *Node) release() error {
	var errs []error
	for _, l := range n.listeners {
		_ = l.Close() // a server may have closed it
	}
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	return errors.Join(append(errs, n.folder.Close())...)
}
