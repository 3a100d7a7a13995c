package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/understudy-mq/understudy/cmd/internal/alarm"
	"github.com/understudy-mq/understudy/cmd/internal/config"
	"github.com/understudy-mq/understudy/cmd/internal/definitions"
	"github.com/understudy-mq/understudy/cmd/internal/node"
	"github.com/understudy-mq/understudy/cmd/internal/telemetry"
)

// gcPercent trades memory for processor time: most of the heap is short-lived batches. GOGC overrides it.
const gcPercent = 200

func serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a node",
		Long: `Run a node. Without any flag it is a broker of its own on port 5672, with its data in ./understudy-data.

Settings come from defaults, then the YAML file of --config, then the environment (--node-id is UNDERSTUDY_NODE_ID),
then flags. Wrong settings are listed all at once, with exit code 2.

SIGTERM or SIGINT drains: clients are closed with 320, leadership moves to other nodes, and the process exits with 0
within --drain-seconds. A second signal ends it at once.`,
		Args: arguments(cobra.NoArgs),
	}
	config.Flags(cmd.Flags())
	file := cmd.Flags().String("config", os.Getenv("UNDERSTUDY_CONFIG"), "YAML file with settings, keys named like the flags")
	show := cmd.Flags().Bool("print-config", false, "print the settings as YAML and exit")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := config.Load(cmd.Flags(), *file, os.Environ())
		if err != nil {
			return usageError{err}
		}
		if err := cfg.Validate(); err != nil {
			return usageError{err}
		}
		if *show {
			b, err := cfg.YAML()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(b)
			return err
		}
		return serve(cfg)
	}
	return cmd
}

// serve runs a node until it is told to stop.
func serve(cfg config.Config) error {
	logger, err := telemetry.NewLogger(os.Stderr, cfg.LogLevel, cfg.LogFormat)
	if err != nil {
		return usageError{err}
	}
	if err := calm(); err != nil {
		logger.Warn("the runtime's monitor stays restless, which costs processor time", "error", err)
	}
	logger.Info("starting", "version", versionText(), "node", cfg.NodeID, "data", cfg.Data)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if limit := cfg.Alarms().MemoryBytes(alarm.System(cfg.Data)()); limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(limit)) // garbage goes before there is an alarm for it
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	n, err := start(cfg, logger, signals)
	if errors.As(err, new(definitions.Faults)) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	select {
	case <-n.Started():
		fmt.Println("ready:", n.Describe())
		<-signals
	case <-signals:
	}
	return drain(n, cfg, signals, logger)
}

// start starts a node. A signal ends the attempt, which may be a long one (joining a cluster, a seed).
func start(cfg config.Config, logger *slog.Logger, signals chan os.Signal) (*node.Node, error) {
	ctx, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	started := make(chan struct{})
	defer close(started)
	go func() {
		select {
		case s := <-signals:
			giveUp()
			signals <- s // once more, for a node that came up all the same
		case <-started:
		}
	}()
	fs, err := disk(cfg.Data)
	if err != nil {
		return nil, err
	}
	return node.Start(ctx, node.Options{Config: cfg, Version: version, Logger: logger, FS: fs, Fatal: fatal(logger)})
}

// fatal ends the process: going on after a failed fsync could lose what was confirmed.
func fatal(logger *slog.Logger) func(error) {
	return func(err error) {
		logger.Error("the node cannot go on", "error", err)
		os.Exit(exitFailure)
	}
}

// drain stops the node in good order; a second signal ends the process at once. What a drain did not get done in its
// time is no failure: a restart makes it good.
func drain(n *node.Node, cfg config.Config, signals <-chan os.Signal, logger *slog.Logger) error {
	ctx, cancel := context.WithTimeout(context.Background(), cfg.Drain())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- n.Stop(ctx) }()
	select {
	case err := <-done:
		if errors.Is(err, context.DeadlineExceeded) {
			logger.Warn("drain time is over", "error", err)
			return nil
		}
		if err == nil {
			logger.Info("stopped")
		}
		return err
	case <-signals:
		return errors.New("second signal: ended without draining")
	}
}
