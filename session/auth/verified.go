package auth

import (
	"crypto/sha256"
	"runtime"
	"sync"
)

// verifiedMax bounds the logins that are remembered.
const verifiedMax = 4096

// verifier checks passwords. It remembers which have matched, by a digest with a secret of the process's own, so that
// clients that come again and again cost no slow hash each time. Slow hashes take turns: they leave cores for the rest.
type verifier struct {
	secret []byte
	decoy  string // what a password is compared with where there is nothing else to compare it with
	turns  chan struct{}

	mu      sync.Mutex
	matched map[[sha256.Size]byte]struct{}
}

func newVerifier(rounds int) *verifier {
	return &verifier{
		secret: random(sha256.Size), decoy: decoyHash(rounds),
		turns: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), matched: map[[sha256.Size]byte]struct{}{},
	}
}

// matches checks a password. A refusal costs one slow hash whatever the algorithm, so that its time tells nothing.
func (v *verifier) matches(hash, algorithm, password string) bool {
	key := sameHash(v.secret, algorithm+hash, password)
	v.mu.Lock()
	_, known := v.matched[key]
	v.mu.Unlock()
	if known {
		return true
	}
	ok := algorithm != AlgorithmSlow && Verify(hash, algorithm, password)
	if !ok {
		ok = v.slow(hash, algorithm, password)
	}
	if ok {
		v.remember(key)
	}
	return ok
}

func (v *verifier) slow(hash, algorithm, password string) bool {
	v.turns <- struct{}{}
	defer func() { <-v.turns }()
	if algorithm == AlgorithmSlow && CheckHash(hash, algorithm) == nil && hash != "" {
		return Verify(hash, algorithm, password)
	}
	Verify(v.decoy, AlgorithmSlow, password)
	return false
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
