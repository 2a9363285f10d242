package session

import (
	"os/exec"
	"slices"
	"testing"

	"wolffia/internal/sys/proc"
	"wolffia/internal/test/wait"
)

// Jobs are reported when the first starts and when the last ends, also jobs from before the watch.
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
		if n := wait.Receive(t, what, told); n != want {
			t.Errorf("%s: %d run, want %d", what, n, want)
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
	wait.Equal(t, "counted jobs", 3, func() int {
		m.activity.mu.Lock()
		defer m.activity.mu.Unlock()
		return m.activity.n
	})
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
