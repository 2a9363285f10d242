package prefetch

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// One sandbox of a user warms its tree at a time: a few others wait for that, and more give up. Those of other users do not wait.
func TestWarmTurn(t *testing.T) {
	mine, other := 1<<30+os.Getpid(), 1<<29+os.Getpid() // no user has one of these ids
	done, ok := Lock(mine)
	if !ok {
		t.Fatal("the first gets no turn")
	}
	others, ok := Lock(other)
	if !ok {
		t.Fatal("another user's gets none")
	}
	others()
	const n = 20
	var all sync.WaitGroup
	var turns, at atomic.Int32
	gaveUp := make(chan struct{}, n)
	for range n {
		all.Go(func() {
			done, ok := Lock(mine)
			if !ok {
				gaveUp <- struct{}{}
				return
			}
			if at.Add(1) > 1 {
				t.Error("two have their turn at the same time")
			}
			turns.Add(1)
			at.Add(-1)
			done()
		})
	}
	const waiters = maxWaiting + 1 // listen(2) takes one more
	for range n - waiters {
		<-gaveUp
	}
	done()
	all.Wait()
	if got := turns.Load(); got != waiters {
		t.Errorf("%d others had their turn, want %d", got, waiters)
	}
}

// A program that takes the name and does not listen keeps a sandbox from its turn, and no longer busy than for tries.
func TestWarmTurnIsTaken(t *testing.T) {
	uid := 1<<28 + os.Getpid()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("@wolffia@wolffia-prefetch-%d", uid)}); err != nil {
		t.Fatal(err)
	}
	if _, ok := Lock(uid); ok {
		t.Error("a name that is taken gives a turn")
	}
}
