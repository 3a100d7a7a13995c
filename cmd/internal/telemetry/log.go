package telemetry

import (
	"fmt"
	"io"
	"log/slog"
)

// NewLogger writes lines of the level (debug, info, warn, error) and above to w, as text or json.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var o slog.HandlerOptions
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log level: %w", err)
	}
	o.Level = l
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, &o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, &o)), nil
	}
	return nil, fmt.Errorf("log format %q is neither text nor json", format)
}
