package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// answerBytes of a long answer are gathered before they are sent.
const answerBytes = 64 << 10

// answer writes a JSON body. An error while writing means that the caller is gone.
func answer(w http.ResponseWriter, status int, body any) {
	begin(w, status)
	_ = json.NewEncoder(w).Encode(body)
}

// begin writes what is ahead of a JSON body.
func begin(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(status)
}

func fail(w http.ResponseWriter, status int, name, reason string) {
	answer(w, status, api.Error{Error: name, Reason: reason})
}

// notFound is what RabbitMQ answers, word for word: its tools compare.
func notFound(w http.ResponseWriter, _ *http.Request) {
	fail(w, http.StatusNotFound, "Object Not Found", "Not Found")
}

// done answers a verb: 204, or what the error stands for.
func done(w http.ResponseWriter, err error) {
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.As(err, new(Unavailable)):
		unavailable(w, err)
	case errors.As(err, new(Conflict)):
		fail(w, http.StatusConflict, "conflict", oneLine(err))
	default:
		fail(w, http.StatusBadRequest, "bad_request", oneLine(err))
	}
}

// unavailable answers for what the cluster may do a moment later.
func unavailable(w http.ResponseWriter, err error) {
	w.Header().Set("Retry-After", "1")
	fail(w, http.StatusServiceUnavailable, "unavailable", oneLine(err))
}

// oneLine keeps joined errors on the one line that a verb prints.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// decode reads a JSON body into v; false if it has answered the caller already. As RabbitMQ does it looks at no field that it
// does not know: its tools repeat there what the path says, and more.
func decode(w http.ResponseWriter, r *http.Request, v any) bool {
	return decodeWith(w, json.NewDecoder(r.Body), v)
}

// decodeStrictly is decode for bodies of our own making, where a field that is not known is a slip.
func decodeStrictly(w http.ResponseWriter, r *http.Request, v any) bool {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	return decodeWith(w, d, v)
}

func decodeWith(w http.ResponseWriter, d *json.Decoder, v any) bool {
	err := d.Decode(v)
	if err == nil && d.Decode(new(json.RawMessage)) != io.EOF {
		err = errors.New("more than one JSON value")
	}
	if err == nil {
		return true
	}
	unreadable(w, err)
	return false
}

// unreadable answers for a body that is too long, or not what it should be.
func unreadable(w http.ResponseWriter, err error) {
	var big *http.MaxBytesError
	if errors.As(err, &big) {
		fail(w, http.StatusRequestEntityTooLarge, "bad_request", fmt.Sprintf("a body has at most %d bytes", big.Limit))
		return
	}
	fail(w, http.StatusBadRequest, "bad_request", "body: "+err.Error())
}
