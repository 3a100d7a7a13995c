package source

import (
	"context"
	"errors"
	"net/http"

	"github.com/understudy-mq/understudy/link/wire"
)

// ErrConflict is what an error of Switch wraps that does not pass by itself: the request does not fit this cluster.
var ErrConflict = errors.New("the request does not fit this cluster")

// Switch carries out what a standby that takes over asks of its source.
type Switch interface {
	// Drain drains and fences the cluster for a planned switch, or takes both back; it answers how far that is, and is asked
	// until it is done.
	Drain(ctx context.Context, d wire.Drain) (wire.DrainAnswer, error)
	// Fence fences the cluster for good, where the cuts are places of its own log.
	Fence(ctx context.Context, f wire.Fence) (wire.FenceAnswer, error)
}

func (s *Server) drain(w http.ResponseWriter, r *http.Request) {
	var q wire.Drain
	if s.decode(w, r, &q) {
		a, err := s.o.Switch.Drain(r.Context(), q)
		s.reply(w, r, a, err)
	}
}

func (s *Server) fence(w http.ResponseWriter, r *http.Request) {
	var q wire.Fence
	if s.decode(w, r, &q) {
		a, err := s.o.Switch.Fence(r.Context(), q)
		s.reply(w, r, a, err)
	}
}

func (s *Server) reply(w http.ResponseWriter, r *http.Request, a any, err error) {
	switch {
	case err == nil:
		wire.WriteJSON(w, http.StatusOK, a)
	case errors.Is(err, ErrConflict):
		s.refuse(w, r, http.StatusConflict, err.Error())
	default:
		s.refuse(w, r, http.StatusServiceUnavailable, err.Error())
	}
}
