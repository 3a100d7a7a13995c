package source

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

// tokensMax is how many tokens a file may hold: the present one and, while it is being replaced, its successor.
const tokensMax = 2

// Tokens are the secrets of a file, one a line, read again when the file changes.
type Tokens struct {
	path   string
	logger *slog.Logger

	mu     sync.Mutex
	seen   stamp
	hashes [][sha256.Size]byte
}

type stamp struct {
	at   time.Time
	size int64
}

// OpenTokens reads the file of tokens at path. Errors: a file that cannot be read, or holds more than two.
func OpenTokens(path string, logger *slog.Logger) (*Tokens, error) {
	t := &Tokens{path: path, logger: logger}
	seen, hashes, err := readTokens(path)
	if err != nil {
		return nil, err
	}
	t.seen, t.hashes = seen, hashes
	return t, nil
}

func readTokens(path string) (seen stamp, hashes [][sha256.Size]byte, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return seen, nil, fmt.Errorf("link tokens: %w", err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return seen, nil, fmt.Errorf("link tokens: %w", err)
	}
	for _, line := range strings.Split(string(b), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			hashes = append(hashes, sha256.Sum256([]byte(line)))
		}
	}
	if len(hashes) > tokensMax {
		return seen, nil, fmt.Errorf("link tokens: %s holds %d of them, %d are the most: one a line", path, len(hashes), tokensMax)
	}
	return stamp{info.ModTime(), info.Size()}, hashes, nil
}

// any says whether there is a token at all; without one the routes do not exist. A nil Tokens has none.
func (t *Tokens) any() bool { return len(t.now()) > 0 }

// has says whether presented is one of them.
func (t *Tokens) has(presented string) bool {
	sum := sha256.Sum256([]byte(presented))
	found := 0
	for _, h := range t.now() {
		found |= subtle.ConstantTimeCompare(sum[:], h[:])
	}
	return found == 1
}

// now answers the tokens as the file has them; where it cannot be read, as it last had them.
func (t *Tokens) now() [][sha256.Size]byte {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	info, err := os.Stat(t.path)
	if err == nil && (stamp{info.ModTime(), info.Size()}) == t.seen {
		return t.hashes
	}
	seen, hashes, err := readTokens(t.path)
	switch {
	case err != nil && t.seen != (stamp{}):
		t.logger.Error("the link's tokens cannot be read again; going on with the former ones", "error", err)
		t.seen = stamp{}
	case err == nil:
		t.logger.Info("the link's tokens were read again", "file", t.path, "tokens", len(hashes))
		t.seen, t.hashes = seen, hashes
	}
	return t.hashes
}
