package admin

import (
	"net/http"

	"github.com/understudy-mq/understudy/session/auth"
)

// passwordBytesMax bounds what is hashed.
const passwordBytesMax = 1024

// hashPassword answers the hash of the {password} of the path, for a user's password_hash. (RabbitMQ has it as a GET; POST is
// taken too, for whom the password should not be a page to go back to.)
func (h *Handler) hashPassword(w http.ResponseWriter, r *http.Request) {
	password := r.PathValue("password")
	if len(password) > passwordBytesMax {
		fail(w, http.StatusBadRequest, "bad_request", "password is too long")
		return
	}
	answer(w, http.StatusOK, map[string]string{"ok": auth.HashPassword(password)})
}
