package node

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Stop drains the node: it is no longer ready, leadership moves to other nodes, whose clients notice nothing of what follows, its
// own clients are closed with 320 and resume elsewhere, and what is in memory is written. It ends with ctx at the latest, saying what was not done by then.
func (n *Node) Stop(ctx context.Context) error {
	n.draining.Store(true)
	n.log.Info("stopping", "clients", n.clients.Open())
	n.raft.HandOver(ctx)
	n.closeClients(ctx)
	done := make(chan error, 1)
	go func() {
		err := n.raft.Stop(ctx)
		n.stop()
		err = errors.Join(err, n.admin.Close(), n.linkage.close())
		n.background.Wait()
		done <- errors.Join(err, n.release())
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the stop is not complete: %w", ctx.Err())
	}
}

// closeClients leaves half of the time to what comes after it.
func (n *Node) closeClients(ctx context.Context) {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
	}
	if err := n.clients.Close(ctx, "node is being stopped"); err != nil {
		n.log.Warn("clients", "error", err)
	}
}

// release gives back what start has taken, as far as it got.
func (n *Node) release() error {
	var errs []error
	if n.admin != nil {
		_ = n.admin.Close() // of a node that did not come up, too
	}
	for _, l := range n.listeners {
		_ = l.Close() // a server may have closed it
	}
	if n.audit != nil {
		errs = append(errs, n.audit.Close())
	}
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	return errors.Join(append(errs, n.folder.Close())...)
}
