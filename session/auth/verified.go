package auth

import (
	"crypto/sha256"
	"runtime"
	"sync"
)

const (
	verifiedMax = 1 << 16 // logins that are remembered: 32 bytes each
	turnsMax    = 32      // slow hashes at once: well below the failures that a source may have at once (Limit.Burst)
)

// verifier checks passwords. It remembers which have matched, by a digest with a secret of the process's own, so that
// clients that come again and again cost no slow hash each time. Slow hashes take turns: they leave cores for the rest.
type verifier struct {
	secret []byte
	decoy  string // what a password is compared with where there is nothing else to compare it with
	turns  chan struct{}
	verify func(hash, algorithm, password string) bool // Verify but for tests

	mu      sync.Mutex
	matched map[[sha256.Size]byte]struct{}
}

func newVerifier(rounds int) *verifier {
	return &verifier{
		secret: random(sha256.Size), decoy: decoyHash(rounds), verify: Verify,
		turns: make(chan struct{}, min(max(1, runtime.GOMAXPROCS(0)/2), turnsMax)), matched: map[[sha256.Size]byte]struct{}{},
	}
}

// matches checks a password, once pay allows the attempt; paid is false where it does not. A refusal costs one slow hash whatever
// the algorithm, so that its time tells nothing. An attempt that has to wait for its turn pays when that comes, lest the many that a node
// let go come back at once and are in each other's way, and looks first whether one before it was the same.
func (v *verifier) matches(hash, algorithm, password string, pay func() bool) (ok, paid bool) {
	key := sameHash(v.secret, algorithm+hash, password)
	if algorithm == AlgorithmSlow && !v.knows(key) {
		v.turns <- struct{}{}
		defer func() { <-v.turns }()
	}
	switch {
	case !pay():
		return false, false
	case v.knows(key):
		return true, true
	case algorithm == AlgorithmSlow:
		ok = v.slow(hash, password)
	default:
		ok = v.verify(hash, algorithm, password) || v.refused(password)
	}
	if ok {
		v.remember(key)
	}
	return ok, true
}

// slow checks a password by a slow hash, or as slowly where there is none.
func (v *verifier) slow(hash, password string) bool {
	if hash == "" || CheckHash(hash, AlgorithmSlow) != nil {
		hash = v.decoy
	}
	return v.verify(hash, AlgorithmSlow, password)
}

// refused takes the time of a slow hash for what a fast one has refused, and is false.
func (v *verifier) refused(password string) bool {
	v.turns <- struct{}{}
	defer func() { <-v.turns }()
	v.verify(v.decoy, AlgorithmSlow, password)
	return false
}

func (v *verifier) knows(key [sha256.Size]byte) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, ok := v.matched[key]
	return ok
}

func (v *verifier) remember(key [sha256.Size]byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.matched) >= verifiedMax {
		for k := range v.matched { // any one: the cache is no promise
			delete(v.matched, k)
			break
		}
	}
	v.matched[key] = struct{}{}
}
