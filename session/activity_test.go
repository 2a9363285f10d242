package session

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"wolffia/internal/sys/proc"
)

// Jobs are told of when there are some and when there are none any more, also
// those that were there before anybody asked.
func TestWatchBusy(t *testing.T) {
	m := NewManager(Host{})
	defer m.Close()
	begin := func() (end func()) {
		t.Helper()
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
		all := proc.Others()
		i := slices.IndexFunc(all, func(p proc.Process) bool { return p.PID == cmd.Process.Pid })
		if i < 0 {
			t.Fatalf("process %d is not there", cmd.Process.Pid)
		}
		m.addJob(&job{members: map[int]uint64{all[i].PID: all[i].Start}, groups: map[int]bool{}}, nil)
		return func() { _ = cmd.Process.Kill() }
	}
	told := make(chan uint32, 10)
	next := func(what string, want uint32) {
		t.Helper()
		select {
		case n := <-told:
			if n != want {
				t.Errorf("%s: %d run, want %d", what, n, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: nobody is told", what)
		}
	}
	early := begin()
	first := make(chan uint32, 10)
	m.WatchBusy(func(n uint32) { first <- n })
	if n := <-first; n != 1 {
		t.Errorf("one that was there: %d run", n)
	}
	m.WatchBusy(func(n uint32) { told <- n })
	next("the same for who asks later", 1)
	early()
	next("it has ended", 0)
	ends := []func(){begin(), begin(), begin()}
	next("three more", 1)
	for end := time.Now().Add(time.Minute); ; {
		m.activity.mu.Lock()
		n := m.activity.n
		m.activity.mu.Unlock()
		if n == 3 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d of 3 are counted", n)
		}
	}
	for _, end := range ends {
		end()
	}
	next("all have ended", 0)
	if len(told) > 0 {
		t.Errorf("told once more: %d", <-told)
	}
	if len(first) > 0 {
		t.Errorf("who asked first is told %d", <-first)
	}
}
