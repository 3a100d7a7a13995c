package replication

import (
	"fmt"
	"log/slog"

	"go.etcd.io/raft/v3"
)

// raftLogger hands raft's warnings and errors on and drops what it says below: it has a line per overtaken storage
// response, per vote and per dropped proposal.
type raftLogger struct{ to *slog.Logger }

var _ raft.Logger = raftLogger{}

func (raftLogger) Debug(...any)          {}
func (raftLogger) Debugf(string, ...any) {}
func (raftLogger) Info(...any)           {}
func (raftLogger) Infof(string, ...any)  {}

func (l raftLogger) Warning(v ...any)            { l.to.Warn(fmt.Sprint(v...)) }
func (l raftLogger) Warningf(f string, v ...any) { l.to.Warn(fmt.Sprintf(f, v...)) }
func (l raftLogger) Error(v ...any)              { l.to.Error(fmt.Sprint(v...)) }
func (l raftLogger) Errorf(f string, v ...any)   { l.to.Error(fmt.Sprintf(f, v...)) }

// raft calls these for broken invariants; the group's goroutine turns the panic into Options.Fatal.
func (l raftLogger) Fatal(v ...any)            { panic(fmt.Sprint(v...)) }
func (l raftLogger) Fatalf(f string, v ...any) { panic(fmt.Sprintf(f, v...)) }
func (l raftLogger) Panic(v ...any)            { panic(fmt.Sprint(v...)) }
func (l raftLogger) Panicf(f string, v ...any) { panic(fmt.Sprintf(f, v...)) }
