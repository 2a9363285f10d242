package shim

import (
	"os"
	"sync"
	"sync/atomic"
	"testing"
)

// One sandbox of a user warms its tree at a time: a few others wait for that, and more give up. Those of other users do not wait.
func TestWarmTurn(t *testing.T) {
	mine, other := 1<<30+os.Getpid(), 1<<29+os.Getpid() // nobody has these ids
	done, ok := warmTurn(mine)
	if !ok {
		t.Fatal("the first gets no turn")
	}
	others, ok := warmTurn(other)
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
			done, ok := warmTurn(mine)
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
	const waiters = warmWaiters + 1 // listen(2) takes one more
	for range n - waiters {
		<-gaveUp
	}
	done()
	all.Wait()
	if got := turns.Load(); got != waiters {
		t.Errorf("%d others had their turn, want %d", got, waiters)
	}
}
