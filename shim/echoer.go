package shim

import (
	"encoding/json"
	"fmt"
	"os"
	goruntime "runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/echo"
	"wolffia/internal/host/boot"
)

// An echoer repeats the host's changes in the mounted tree for the programs inside that watch it,
// by [echo.Repeat]. It looks for such programs when the host has changed something, and so does
// nothing otherwise. Its methods are safe for concurrent use.
type echoer struct {
	tree *treeConn
	dir  string // where the tree is mounted
	pid1 func() hostInit

	repeating atomic.Bool
}

// An edit reaches a program that watches within 200 ms.
const (
	// echoSettle is how long changes are collected: a save makes several.
	echoSettle = 10 * time.Millisecond

	// Pauses between two looks at what programs watch: from the first, twice as long each time
	// that none is found, up to the last. A look takes at most a fifth of the time, work half of it.
	echoPause, echoLastPause = 25 * time.Millisecond, 100 * time.Millisecond

	// echoQuiet is after how long without changes the pause is the first one again.
	echoQuiet = time.Second

	echoLimit = 10 * time.Second // of an answer of the tree server
)

// run repeats changes until the tree server has ended. It locks its thread, which the tree server
// knows the operations by, and which so must not end before the process: another one could get its
// number.
func (e *echoer) run() {
	pause, ended := echoPause, time.Now()
	for {
		select {
		case <-e.tree.changed:
		case <-e.tree.over:
			return
		}
		if time.Since(ended) > echoQuiet {
			pause = echoPause
		}
		time.Sleep(max(echoSettle, pause-time.Since(ended)))
		begun := time.Now()
		repeated, err := e.repeat()
		if err != nil {
			fmt.Fprintln(os.Stderr, "repeat the host's changes:", err)
			<-e.tree.over // the thread stays
			return
		}
		ended = time.Now()
		took := ended.Sub(begun)
		if repeated {
			pause = max(echoPause, took)
		} else {
			pause = max(min(2*pause, echoLastPause), 4*took)
		}
	}
}

// isRepeating reports whether the tree server may be asked by repeat. A nil echoer does nothing.
func (e *echoer) isRepeating() bool { return e != nil && e.repeating.Load() }

// repeat repeats the changes so far, and reports whether a program watches the tree.
func (e *echoer) repeat() (watched bool, err error) {
	e.repeating.Store(true)
	defer e.repeating.Store(false)
	ask := func(thread int) ([]byte, error) {
		r, err := e.tree.ask(boot.TreeRequest{Op: boot.AskHostChanges, Thread: thread}, nil, echoLimit)
		return r.HostChanges, err
	}
	root, err := unix.Open(e.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(root)
	watches := e.watches(root)
	if watches.None() {
		_, err = ask(0)
		return false, err
	}
	goruntime.LockOSThread() // for good
	for {
		var b echo.Batch
		text, err := ask(unix.Gettid())
		if err == nil {
			err = json.Unmarshal(text, &b)
		}
		if err != nil {
			return true, err
		}
		if err := echo.Repeat(root, &b, watches); err != nil || !b.More {
			return true, err
		}
	}
}

// watches returns what the processes inside watch in the tree that is open as root.
func (e *echoer) watches(root int) *echo.Watches {
	var st unix.Stat_t
	if proc := e.pid1().proc; proc != nil && unix.Fstat(root, &st) == nil {
		return echo.FindWatches(proc, st.Dev)
	}
	return new(echo.Watches)
}
