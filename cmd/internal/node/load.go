package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/understudy-mq/understudy/cmd/internal/admin"
	"github.com/understudy-mq/understudy/cmd/internal/definitions"
	"github.com/understudy-mq/understudy/core"
)

// A file of definitions that a first start is given is judged before anything else, and copied into the data folder, where it
// stays until it is carried out: a node that dies in between takes it up again.

const (
	pendingFile    = "definitions.pending"
	pendingBytes   = 64 << 20 // of a file
	loadedBy       = "--load-definitions"
	loadAgainAfter = time.Second
)

// takeDefinitions reads the file of a first start, or what an earlier run has left to do. Errors list every fault of the file.
func (n *Node) takeDefinitions() error {
	text, err := n.folder.readFile(pendingFile)
	if err == nil {
		n.pending.Store(&text)
		return nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("data folder: %w", err)
	}
	if n.cfg.LoadDefinitions == "" || !n.folder.Fresh() || n.cfg.Join != "" {
		return nil
	}
	if info, err := os.Stat(n.cfg.LoadDefinitions); err == nil && info.Size() > pendingBytes {
		return fmt.Errorf("--load-definitions: %s has %d bytes, at most %d are allowed", n.cfg.LoadDefinitions, info.Size(), pendingBytes)
	}
	if text, err = os.ReadFile(n.cfg.LoadDefinitions); err != nil {
		return fmt.Errorf("--load-definitions: %w", err)
	}
	d, err := definitions.Read(text, "")
	if err == nil {
		_, err = definitions.Check(d, n.firstState())
	}
	if err != nil {
		return fmt.Errorf("--load-definitions: %s:\n%w", n.cfg.LoadDefinitions, err)
	}
	n.pending.Store(&text)
	return nil
}

// firstState is what a cluster has when it has formed.
func (n *Node) firstState() definitions.State {
	state := definitionRules()
	state.Users = []string{n.cfg.DefaultUser}
	state.Vhost = func(name string) (definitions.Vhost, bool) { return definitions.Vhost{}, name == firstVhost }
	return state
}

// keepDefinitions copies what is to be loaded into the data folder.
func (n *Node) keepDefinitions() error {
	text := n.pending.Load()
	if text == nil {
		return nil
	}
	return n.folder.replace(pendingFile, *text)
}

// loadDefinitions carries out what is to be loaded, and tries again until the cluster takes it.
func (n *Node) loadDefinitions(ctx context.Context) {
	text := n.pending.Load()
	if text == nil {
		return
	}
	for {
		err := n.ImportDefinitions(ctx, loadedBy, "", *text)
		if err == nil {
			err = n.dropFirstUser(ctx, *text)
		}
		if err == nil {
			err = n.folder.remove(pendingFile)
		}
		if err == nil {
			n.pending.Store(nil)
			n.log.Info("definitions are loaded")
			return
		}
		if !errors.As(err, new(admin.Unavailable)) {
			n.o.Fatal(fmt.Errorf("load definitions: %w", err))
			return
		}
		n.log.Warn("definitions are not loaded yet", "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(loadAgainAfter):
		}
	}
}

// dropFirstUser deletes the user that the cluster was made with where the file brings an administrator of its own: as in RabbitMQ
// nobody then logs in with a password that everybody knows.
func (n *Node) dropFirstUser(ctx context.Context, text []byte) error {
	d, err := definitions.Read(text, "")
	if err != nil {
		return err
	}
	administrator := false
	for _, u := range d.Users {
		if u.Name == n.cfg.DefaultUser {
			return nil
		}
		administrator = administrator || u.Tags != nil && slices.Contains(*u.Tags, admin.TagAdministrator)
	}
	if !administrator || !n.hasUser(n.cfg.DefaultUser) {
		return nil
	}
	return n.accounts.DeleteUser(ctx, loadedBy, n.cfg.DefaultUser)
}

func (n *Node) hasUser(name string) (has bool) {
	n.states[systemGroup].View(func(m *core.Machine) {
		has = slices.ContainsFunc(m.Users(), func(u core.UserInfo) bool { return u.Name == name })
	})
	return has
}

// definitionRules are the rules for definitions, whatever there is.
func definitionRules() definitions.State {
	return definitions.State{
		CheckName:  checkObjectName,
		CheckUser:  checkDefinedUser,
		CheckVhost: checkDefinedVhost,
	}
}
