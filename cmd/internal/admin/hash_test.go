package admin

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/understudy-mq/understudy/session/auth"
)

func TestAPasswordIsHashedAsRabbitMQDoes(t *testing.T) {
	f := &fake{}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		w := f.call(method, "/api/auth/hash_password/a%2Fb%20c", "")
		var answer struct{ OK string }
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", method, w.Code, w.Body)
		}
		if !auth.Verify(answer.OK, auth.AlgorithmSHA256, "a/b c") || auth.Verify(answer.OK, auth.AlgorithmSHA256, "a") {
			t.Errorf("%s: %q is no hash of the password", method, answer.OK)
		}
	}
}
