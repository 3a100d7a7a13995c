package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
)

// saltBytes is how much of a decoded hash is its salt.
const saltBytes = 4

// HashPassword makes a hash with a random salt, of the kind that VerifyRabbitHash verifies. A blank password has none: the
// answer is "", which never matches.
func HashPassword(password string) string {
	if password == "" {
		return ""
	}
	salt := make([]byte, saltBytes, saltBytes+sha256.Size)
	rand.Read(salt) // never fails: see crypto/rand
	return base64.StdEncoding.EncodeToString(append(salt, digest(salt, password)...))
}

// VerifyRabbitHash says whether password is the one that hash was made of: RabbitMQ's rabbit_password_hashing_sha256, the
// base64 of a salt of 4 bytes and the SHA-256 of salt and password, as in password_hash of its definitions. A malformed
// hash matches nothing, a blank password never does. The time taken does not depend on where they differ.
func VerifyRabbitHash(hash, password string) bool {
	raw, err := base64.StdEncoding.DecodeString(hash)
	if err != nil || len(raw) != saltBytes+sha256.Size || password == "" {
		return false
	}
	salt, want := raw[:saltBytes], raw[saltBytes:]
	return subtle.ConstantTimeCompare(digest(salt, password), want) == 1
}

func digest(salt []byte, password string) []byte {
	h := sha256.New()
	h.Write(salt)
	h.Write([]byte(password))
	return h.Sum(nil)
}
