package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/understudy-mq/understudy/cmd/internal/admin"
	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/audit"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/session/auth"
)

var _ admin.Accounts = (*accounts)(nil)

// Bounds of what a user has.
const (
	nameBytesMax     = 255
	passwordBytesMax = 1024
	tagsMax          = 32
)

// checkName refuses names that people could not read or write.
func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s is empty", what)
	case len(name) > nameBytesMax:
		return fmt.Errorf("%s of %d bytes, at most %d are allowed", what, len(name), nameBytesMax)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("%s %q: control characters and invalid UTF-8 are not allowed", what, name)
	}
	return nil
}

// MayEnter says whether a user has permissions in a vhost.
func (a *accounts) MayEnter(user, vhost string) bool { return a.registry.MayEnter(user, vhost) }

// Users lists the users, with their hashes: for administrators.
func (a *accounts) Users() []api.User {
	rows := []api.User{}
	a.state(func(m *core.Machine) {
		for _, u := range m.Users() {
			row := api.User{Name: u.Name, PasswordHash: u.Hash, HashingAlgorithm: u.Algorithm, Tags: u.Tags, Limits: map[string]int{}}
			for name, value := range map[string]int{admin.LimitConnections: u.MaxConnections, admin.LimitChannels: u.MaxChannels} {
				if value >= 0 {
					row.Limits[name] = value
				}
			}
			rows = append(rows, row)
		}
	})
	return rows
}

// Permissions lists what users may do.
func (a *accounts) Permissions() []api.Permission {
	rows := []api.Permission{}
	a.state(func(m *core.Machine) {
		for _, p := range m.Permissions() {
			rows = append(rows, api.Permission(p))
		}
	})
	return rows
}

// TopicPermissions lists topic permissions.
func (a *accounts) TopicPermissions() []api.TopicPermission {
	rows := []api.TopicPermission{}
	a.state(func(m *core.Machine) {
		for _, p := range m.TopicPermissions() {
			rows = append(rows, api.TopicPermission(p))
		}
	})
	return rows
}

// PutUser makes a user or changes one.
func (a *accounts) PutUser(ctx context.Context, by, name string, u api.NewUser) error {
	cmd, err := userPut(name, u)
	if err != nil {
		return err
	}
	if cmd.KeepHash && !slices.ContainsFunc(a.Users(), func(u api.User) bool { return u.Name == name }) {
		return errors.New("a new user needs a password or a password_hash")
	}
	return a.change(ctx, audit.Event{Event: "user_put", User: name, By: by, Text: "tags: " + cmd.Tags},
		func(request uint64) entry.Command { cmd.Request = request; return &cmd })
}

// userPut makes the command; the error lists all that is wrong with what is asked.
func userPut(name string, u api.NewUser) (entry.UserPut, error) {
	cmd := entry.UserPut{Name: name}
	err := errors.Join(checkName("user name", name), setPassword(&cmd, u), setTags(&cmd, u.Tags))
	return cmd, err
}

func setPassword(cmd *entry.UserPut, u api.NewUser) error {
	switch {
	case u.Password != nil && u.PasswordHash != nil:
		return errors.New("give either a password or a password_hash")
	case u.Password != nil && *u.Password == "":
		return errors.New("a blank password is not allowed; an empty password_hash makes a user that cannot log in by password")
	case u.Password != nil && len(*u.Password) > passwordBytesMax:
		return fmt.Errorf("a password has at most %d bytes", passwordBytesMax)
	case u.Password != nil:
		cmd.Hash, cmd.Algorithm = auth.HashSlowly(*u.Password), auth.AlgorithmSlow
	case u.PasswordHash != nil:
		cmd.Hash, cmd.Algorithm = *u.PasswordHash, u.HashingAlgorithm
		if cmd.Algorithm == "" {
			cmd.Algorithm = auth.AlgorithmSHA256
		}
		return auth.CheckHash(cmd.Hash, cmd.Algorithm)
	default:
		cmd.KeepHash = true
	}
	return nil
}

func setTags(cmd *entry.UserPut, tags *api.Tags) error {
	if tags == nil {
		return nil
	}
	var err error
	cmd.Tags, err = tagsText(*tags)
	return err
}

// tagsText joins the tags of a user or vhost.
func tagsText(tags api.Tags) (string, error) {
	if len(tags) > tagsMax {
		return "", fmt.Errorf("there are at most %d tags", tagsMax)
	}
	for _, tag := range tags {
		if err := checkName("tag", tag); err != nil {
			return "", err
		}
		if strings.Contains(tag, ",") {
			return "", fmt.Errorf("tag %q has a comma", tag)
		}
	}
	return strings.Join(tags, ","), nil
}

// DeleteUser deletes a user; its connections are closed.
func (a *accounts) DeleteUser(ctx context.Context, by, name string) error {
	return a.change(ctx, audit.Event{Event: "user_deleted", User: name, By: by},
		func(request uint64) entry.Command { return &entry.UserDelete{Request: request, Name: name} })
}

// SetUserLimit sets one of a user's limits and keeps the other.
func (a *accounts) SetUserLimit(ctx context.Context, by, user, limit string, value int) error {
	if value >= math.MaxUint32 {
		return fmt.Errorf("limit %d is too high", value)
	}
	a.limiting.Lock() // both limits are one command
	defer a.limiting.Unlock()
	limits := a.registry.Limits(user)
	switch limit {
	case admin.LimitConnections:
		limits.Connections = value
	case admin.LimitChannels:
		limits.Channels = value
	default:
		return fmt.Errorf("user limit %q is not known; use %s or %s", limit, admin.LimitConnections, admin.LimitChannels)
	}
	return a.change(ctx, audit.Event{Event: "user_limit", User: user, By: by, Text: fmt.Sprintf("%s: %d", limit, value)},
		func(request uint64) entry.Command {
			return &entry.UserLimits{Request: request, Name: user, MaxConnections: uint32(max(limits.Connections, -1) + 1),
				MaxChannels: uint32(max(limits.Channels, -1) + 1)}
		})
}

// SetPermission says what a user may do in a vhost.
func (a *accounts) SetPermission(ctx context.Context, by string, p api.Permission) error {
	err := errors.Join(auth.CheckPattern(p.Configure), auth.CheckPattern(p.Write), auth.CheckPattern(p.Read))
	if err != nil {
		return err
	}
	return a.change(ctx, audit.Event{Event: "permission_set", User: p.User, Vhost: p.Vhost, By: by,
		Text: fmt.Sprintf("configure %q, write %q, read %q", p.Configure, p.Write, p.Read)},
		func(request uint64) entry.Command {
			return &entry.PermissionSet{Request: request, User: p.User, Vhost: p.Vhost, Configure: p.Configure, Write: p.Write, Read: p.Read}
		})
}

// ClearPermission takes a user out of a vhost; its connections there are closed.
func (a *accounts) ClearPermission(ctx context.Context, by, user, vhost string) error {
	return a.change(ctx, audit.Event{Event: "permission_cleared", User: user, Vhost: vhost, By: by},
		func(request uint64) entry.Command {
			return &entry.PermissionClear{Request: request, User: user, Vhost: vhost}
		})
}

// SetTopicPermission narrows what routing keys a user may use with an exchange.
func (a *accounts) SetTopicPermission(ctx context.Context, by string, p api.TopicPermission) error {
	if err := errors.Join(checkName("exchange name", p.Exchange), auth.CheckPattern(p.Write), auth.CheckPattern(p.Read)); err != nil {
		return err
	}
	return a.change(ctx, audit.Event{Event: "topic_permission_set", User: p.User, Vhost: p.Vhost, By: by,
		Text: fmt.Sprintf("exchange %q, write %q, read %q", p.Exchange, p.Write, p.Read)},
		func(request uint64) entry.Command {
			return &entry.TopicPermissionSet{Request: request, User: p.User, Vhost: p.Vhost, Exchange: p.Exchange, Write: p.Write, Read: p.Read}
		})
}

// ClearTopicPermission undoes SetTopicPermission.
func (a *accounts) ClearTopicPermission(ctx context.Context, by, user, vhost, exchange string) error {
	return a.change(ctx, audit.Event{Event: "topic_permission_cleared", User: user, Vhost: vhost, By: by, Text: exchange},
		func(request uint64) entry.Command {
			return &entry.TopicPermissionClear{Request: request, User: user, Vhost: vhost, Exchange: exchange}
		})
}
