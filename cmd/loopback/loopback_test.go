package loopback

import (
	"net"
	"strconv"
	"testing"
)

func TestAHeldAddressIsGivenOnceAndAgainAfterItsRelease(t *testing.T) {
	all, err := Hold(200)
	if err != nil {
		t.Fatal(err)
	}
	defer all.Release()
	held := map[string]bool{}
	for _, a := range all.Addresses {
		if held[a] {
			t.Fatalf("%s is held twice", a)
		}
		held[a] = true
	}
	_, port, err := net.SplitHostPort(all.Addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	number, _ := strconv.Atoi(port)
	dir := all.locks[0].Name()[:len(all.locks[0].Name())-len(port)]
	var other Held
	defer other.Release()
	if err := other.add(dir, number); err != nil || len(other.Addresses) != 0 {
		t.Fatalf("a held address is given away: %v, %v", other.Addresses, err)
	}
	all.Release()
	if err := other.add(dir, number); err != nil || len(other.Addresses) != 1 {
		t.Fatalf("a released address is not given: %v, %v", other.Addresses, err)
	}
}

func TestAPortThatIsListenedOnIsNotGiven(t *testing.T) {
	h, err := Hold(1)
	if err != nil {
		t.Fatal(err)
	}
	address := h.Addresses[0]
	dir := h.locks[0].Name()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	h.Release()
	var other Held
	defer other.Release()
	if err := other.add(dir[:len(dir)-len(strconv.Itoa(port))], port); err != nil || len(other.Addresses) != 0 {
		t.Fatalf("a port that is listened on is given away: %v, %v", other.Addresses, err)
	}
}
