package source

import (
	"net/http"

	"github.com/understudy-mq/understudy/link/wire"
)

// rewind answers where a former source was cut, and keeps the log from there on under the name that it will read with.
func (s *Server) rewind(w http.ResponseWriter, r *http.Request) {
	var q wire.RewindRequest
	if !s.decode(w, r, &q) {
		return
	}
	if reason := s.admits(q.Reader, q.Standby); reason != "" {
		s.refuse(w, r, http.StatusConflict, reason)
		return
	}
	if s.o.Cuts == nil {
		http.NotFound(w, r)
		return
	}
	cuts, err := s.o.Cuts(q.Cluster)
	if err == nil {
		places := make([]wire.Position, len(cuts))
		for i, c := range cuts {
			places[i] = c.Here
		}
		s.note(q.Reader, q.Standby, 0, places)
		s.o.Notes.Returned(q.Cluster)
	}
	id := s.o.Identity()
	s.reply(w, r, wire.Rewind{Cluster: id.Cluster, Generation: id.Generation, Cuts: cuts}, err)
}
