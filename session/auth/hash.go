package auth

import (
	"bytes"
	"crypto/md5"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash"
	"slices"
	"strings"
)

// The algorithms of password hashes, as hashing_algorithm names them. RabbitMQ's are the base64 of a salt of 4 bytes and
// the digest of salt and password: fast to guess, and taken so that definitions can be imported.
const (
	AlgorithmSHA256 = "rabbit_password_hashing_sha256"
	AlgorithmSHA512 = "rabbit_password_hashing_sha512"
	AlgorithmMD5    = "rabbit_password_hashing_md5"
	// AlgorithmSlow is for passwords that are set here: the base64 of the count of iterations (4 bytes, big endian), a
	// salt of 16 bytes and PBKDF2-HMAC-SHA-512 of the password's SHA-512.
	AlgorithmSlow = "understudy_password_hashing_pbkdf2_sha512"
)

const (
	saltBytes     = 4 // of RabbitMQ's hashes
	slowSaltBytes = 16
	slowKeyBytes  = 32
	slowHeadBytes = 4 + slowSaltBytes
	// iterations is what databases take for the logins of programs (MongoDB's SCRAM-SHA-256): some 7 ms of a core. After a
	// take-over every user of a cluster logs in at once where nobody has been; with what OWASP advises for people (210,000), a
	// thousand of them would wait for minutes.
	iterations = 15_000
	// iterationsMax bounds what a hash that was imported can make a login cost: about 1 s.
	iterationsMax = 2_100_000
)

// HashPassword makes a hash of AlgorithmSHA256 with a random salt. A blank password has none: the answer is "", which
// never matches.
func HashPassword(password string) string {
	if password == "" {
		return ""
	}
	salt := random(saltBytes)
	return base64.StdEncoding.EncodeToString(append(salt, digest(sha256.New(), salt, password)...))
}

// HashSlowly makes a hash of AlgorithmSlow with a random salt; "" for a blank password.
func HashSlowly(password string) string { return hashSlowly(password, iterations) }

func hashSlowly(password string, rounds int) string {
	if password == "" {
		return ""
	}
	salt := random(slowSaltBytes)
	return slowHash(rounds, salt, derive(password, salt, rounds))
}

// decoyHash is a hash of nobody's password: to verify it costs what one of so many iterations does, and nothing matches.
func decoyHash(rounds int) string {
	return slowHash(rounds, random(slowSaltBytes), random(slowKeyBytes))
}

func slowHash(rounds int, salt, key []byte) string {
	return base64.StdEncoding.EncodeToString(slices.Concat(binary.BigEndian.AppendUint32(nil, uint32(rounds)), salt, key))
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails: see crypto/rand
	return b
}

func derive(password string, salt []byte, rounds int) []byte {
	whole := sha512.Sum512([]byte(password)) // HMAC would not tell a password from one with NULs behind it
	key, err := pbkdf2.Key(sha512.New, string(whole[:]), salt, rounds, slowKeyBytes)
	if err != nil { // only for sizes that are not ours
		return nil
	}
	return key
}

// digests are the fast algorithms; the empty name is RabbitMQ's default.
func digests(algorithm string) hash.Hash {
	switch algorithm {
	case "", AlgorithmSHA256:
		return sha256.New()
	case AlgorithmSHA512:
		return sha512.New()
	case AlgorithmMD5:
		return md5.New()
	}
	return nil
}

// Verify says whether password is the one that a hash was made of. A malformed hash or an unknown algorithm matches
// nothing, a blank password never does. The time taken does not depend on where they differ.
func Verify(hash, algorithm, password string) bool {
	raw, err := base64.StdEncoding.DecodeString(hash)
	if err != nil || hash == "" || password == "" || CheckHash(hash, algorithm) != nil {
		return false
	}
	if algorithm == AlgorithmSlow {
		rounds, salt, want := int(binary.BigEndian.Uint32(raw)), raw[4:slowHeadBytes], raw[slowHeadBytes:]
		return subtle.ConstantTimeCompare(derive(password, salt, rounds), want) == 1
	}
	salt, want := raw[:saltBytes], raw[saltBytes:]
	return subtle.ConstantTimeCompare(digest(digests(algorithm), salt, password), want) == 1
}

// CheckHash says what is wrong with a hash that comes from outside. An empty hash is right: nobody logs in with it.
func CheckHash(hash, algorithm string) error {
	size := saltBytes
	if h := digests(algorithm); h != nil {
		size += h.Size()
	} else if algorithm == AlgorithmSlow {
		size = slowHeadBytes + slowKeyBytes
	} else {
		return fmt.Errorf("hashing algorithm %.64q is not known; use one of %s", algorithm,
			strings.Join([]string{AlgorithmSHA256, AlgorithmSHA512, AlgorithmMD5}, ", "))
	}
	if hash == "" {
		return nil
	}
	raw, err := base64.StdEncoding.DecodeString(hash)
	if err != nil || len(raw) != size {
		return fmt.Errorf("password hash is not the base64 of %d bytes", size)
	}
	if n := binary.BigEndian.Uint32(raw); algorithm == AlgorithmSlow && (n == 0 || n > iterationsMax) {
		return fmt.Errorf("password hash has %d iterations, 1 to %d are allowed", n, iterationsMax)
	}
	return nil
}

func digest(h hash.Hash, salt []byte, password string) []byte {
	h.Write(salt)
	h.Write([]byte(password))
	return h.Sum(nil)
}

// sameHash keeps what verifies a login apart from another hash or password: it is a key of the cache, and says nothing of
// the password without the cache's own secret.
func sameHash(secret []byte, hash, password string) [sha256.Size]byte {
	return sha256.Sum256(bytes.Join([][]byte{secret, binary.BigEndian.AppendUint64(nil, uint64(len(hash))), []byte(hash), []byte(password)}, nil))
}
