package auth

import (
	"bytes"
	"encoding/base64"
	"net"
	"testing"
)

func TestEveryAlgorithmVerifiesItsOwnPasswordOnly(t *testing.T) {
	salt := []byte("salt")
	for _, algorithm := range []string{"", AlgorithmSHA256, AlgorithmSHA512, AlgorithmMD5, AlgorithmSlow} {
		hash := hashSlowly("right", 2)
		if h := digests(algorithm); h != nil {
			hash = base64.StdEncoding.EncodeToString(append(salt, digest(h, salt, "right")...))
		}
		if err := CheckHash(hash, algorithm); err != nil || !Verify(hash, algorithm, "right") {
			t.Errorf("%q: the password does not match (%v)", algorithm, err)
		}
		for _, wrong := range []string{"", "Right", "right\x00"} {
			if Verify(hash, algorithm, wrong) {
				t.Errorf("%q: %q matches", algorithm, wrong)
			}
		}
		if Verify("", algorithm, "right") || Verify(hash[4:], algorithm, "right") {
			t.Errorf("%q: a damaged hash matches", algorithm)
		}
	}
}

func TestHashesFromOutsideAreChecked(t *testing.T) {
	dear := hashSlowly("x", 1)
	raw, _ := base64.StdEncoding.DecodeString(dear)
	raw[0] = 0x7f
	for _, c := range [][2]string{{"abc", ""}, {"!", AlgorithmMD5}, {"", "rot13"}, {base64.StdEncoding.EncodeToString(raw), AlgorithmSlow}} {
		if CheckHash(c[0], c[1]) == nil || Verify(c[0], c[1], "x") {
			t.Errorf("%q of %q is taken", c[0], c[1])
		}
	}
	if CheckHash("", AlgorithmSHA512) != nil {
		t.Error("no hash is a right one: nobody logs in with it")
	}
}

func TestASlowHashIsSaltedAndSlow(t *testing.T) {
	a, b := HashSlowly("x"), HashSlowly("x")
	if a == b || HashSlowly("") != "" || !Verify(a, AlgorithmSlow, "x") {
		t.Errorf("%q, %q", a, b)
	}
}

func TestAPasswordThatMatchedIsRememberedUntilTheHashChanges(t *testing.T) {
	set := Static{"u": {Name: "u", PasswordHash: hashSlowly("one", 1), Algorithm: AlgorithmSlow}}
	a := New(Options{Users: set, Iterations: 1})
	login := func(password string) bool {
		_, err := a.Authenticate("u", password, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		return err == nil
	}
	first, again := login("one"), login("one")
	if !first || !again || login("two") {
		t.Error("the first password does not do")
	}
	if len(a.verifier.matched) != 1 {
		t.Errorf("%d logins are remembered, want 1", len(a.verifier.matched))
	}
	set["u"] = User{Name: "u", PasswordHash: hashSlowly("two", 1), Algorithm: AlgorithmSlow}
	if login("one") || !login("two") {
		t.Error("the old password still does")
	}
}

// A decoy that is malformed costs nothing to refuse: the time of a refusal would tell who there is.
func TestTheDecoyCostsWhatASlowHashDoesAndNothingMatchesIt(t *testing.T) {
	v := newVerifier(iterations)
	if err := CheckHash(v.decoy, AlgorithmSlow); err != nil {
		t.Error(err)
	}
	decoy, err1 := base64.StdEncoding.DecodeString(v.decoy)
	real, err2 := base64.StdEncoding.DecodeString(HashSlowly("x"))
	if err1 != nil || err2 != nil || !bytes.Equal(decoy[:4], real[:4]) || len(decoy) != len(real) {
		t.Errorf("the decoy %x is not of the form of %x", decoy, real)
	}
	if Verify(v.decoy, AlgorithmSlow, "decoy") {
		t.Error("a password matches the decoy")
	}
}

func TestRememberedLoginsAreBounded(t *testing.T) {
	v := newVerifier(1)
	for i := range 2 * verifiedMax {
		v.remember([32]byte{byte(i), byte(i >> 8), byte(i >> 16)})
	}
	if len(v.matched) != verifiedMax {
		t.Errorf("%d are remembered", len(v.matched))
	}
}

func BenchmarkRememberedLogin(b *testing.B) {
	v := newVerifier(1)
	hash := HashSlowly("x")
	for b.Loop() {
		v.matches(hash, AlgorithmSlow, "x", func() bool { return true })
	}
}

func BenchmarkSlowHash(b *testing.B) {
	for b.Loop() {
		HashSlowly("x")
	}
}
