package shim

import (
	"os"
	"testing"
)

// One sandbox of a user warms its tree at a time; those of other users do not wait for it.
func TestWarmTurn(t *testing.T) {
	mine, other := 1<<30+os.Getpid(), 1<<29+os.Getpid() // nobody has these ids
	done, ok := warmTurn(mine)
	if !ok {
		t.Fatal("the first gets no turn")
	}
	if _, ok := warmTurn(mine); ok {
		t.Error("a second one of the user has its turn at the same time")
	}
	others, ok := warmTurn(other)
	if !ok {
		t.Fatal("another user's waits")
	}
	others()
	done()
	done, ok = warmTurn(mine)
	if !ok {
		t.Fatal("the turn is not given back")
	}
	done()
}
