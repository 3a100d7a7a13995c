package auth

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// storm is a node's clients that come back at once: they log in while another's slow hash has the turn, from one source.
type storm struct {
	users   []string
	comings int // logins of each user
	limit   Limit
}

// run answers how many got in, and how many slow hashes that cost.
func (s storm) run(t *testing.T) (in, hashes int64) {
	var entered, slow atomic.Int64
	synctest.Test(t, func(t *testing.T) {
		set := Static{}
		for _, name := range s.users {
			set[name] = User{Name: name, PasswordHash: hashSlowly("right", 1), Algorithm: AlgorithmSlow}
		}
		a := New(Options{Users: set, Iterations: 1, Limit: s.limit})
		a.verifier.verify = func(hash, algorithm, password string) bool {
			slow.Add(1)
			return Verify(hash, algorithm, password)
		}
		for range cap(a.verifier.turns) {
			a.verifier.turns <- struct{}{}
		}
		var wait sync.WaitGroup
		for _, name := range s.users {
			for range s.comings {
				wait.Go(func() {
					if _, err := a.Authenticate(name, "right", &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}); err == nil {
						entered.Add(1)
					}
				})
			}
		}
		synctest.Wait()
		for range cap(a.verifier.turns) {
			<-a.verifier.turns
		}
		wait.Wait()
	})
	return entered.Load(), slow.Load()
}

func TestOneSlowHashServesAllWhoWaitWithTheSameLogin(t *testing.T) {
	in, hashes := storm{users: []string{"app"}, comings: 500}.run(t)
	if most := int64(cap(newVerifier(1).turns)); in != 500 || hashes > most {
		t.Errorf("%d of 500 are in after %d slow hashes; at most %d are begun before one is known", in, hashes, most)
	}
}

func TestRightLoginsThatWaitAreNotCountedAsFailures(t *testing.T) {
	var users []string
	for i := range 200 {
		users = append(users, fmt.Sprint("device-", i))
	}
	in, hashes := storm{users: users, comings: 1, limit: Limit{Burst: 40, Every: time.Hour}}.run(t)
	if in != 200 || hashes != 200 {
		t.Errorf("%d of 200 users of one source are in after %d slow hashes; all are right", in, hashes)
	}
}
