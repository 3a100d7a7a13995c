package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// version is the release; the build's revision is added to it where it is known.
const version = "0.1.0"

// Exit codes.
const (
	exitFailure = 1
	exitUsage   = 2
)

// usageError is a failure of the caller's: wrong flags, settings or arguments.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func main() {
	syscall.Umask(0o077) // data folders hold messages, and hashes of passwords
	err := root().Execute()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "understudy: "+err.Error())
	if errors.As(err, new(usageError)) {
		os.Exit(exitUsage)
	}
	os.Exit(exitFailure)
}

// root is the command with all verbs.
func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "understudy",
		Short:         "An AMQP broker whose whole state is a replicated log",
		Version:       versionText(),
		SilenceErrors: true, // main prints them, in one line
		SilenceUsage:  true,
		Args:          arguments(cobra.NoArgs),

		PersistentPreRunE: fromEnvironment,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w (see %s)", err, helpFor(cmd))}
	})
	cmd.AddCommand(serveCommand(), statusCommand(), membersCommand(), linkCommand(), demoCommand(), fingerprintCommand())
	cmd.AddCommand(listCommands()...)
	cmd.AddCommand(accountCommands()...)
	cmd.AddCommand(sessionsCommand(), policiesCommand())
	cmd.AddCommand(publishCommand(), getCommand(), consumeCommand())
	cmd.AddCommand(dumpLogCommand(), recoverCommand())
	return cmd
}

// arguments makes wrong arguments a usage error.
func arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			if !cmd.HasParent() {
				return usageError{fmt.Errorf("%w (see understudy help)", err)}
			}
			return usageError{fmt.Errorf("%w (usage: %s)", err, cmd.UseLine())}
		}
		return nil
	}
}

// group is a command that only holds others.
func group(use, short string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown verb %q of %s (see %s)", args[0], cmd.Name(), helpFor(cmd))}
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(verbs...)
	return cmd
}

// helpFor is the command that tells about a command.
func helpFor(cmd *cobra.Command) string {
	program, verb, _ := strings.Cut(cmd.CommandPath(), " ")
	return strings.TrimSpace(program + " help " + verb)
}

func versionText() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return version + " (" + s.Value[:12] + ", " + info.GoVersion + ")"
		}
	}
	return version + " (" + info.GoVersion + ")"
}
