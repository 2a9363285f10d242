package session

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"wolffia/internal/sys/proc"
	"wolffia/internal/test/wait"
)

// A job is over when its shell has reaped it, or does not.
func TestJobDies(t *testing.T) {
	// A parent that does not ask for its child.
	cmd := exec.Command("sh", "-c", "sleep 0.1 & exec sleep 1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // the guest of the other tests may have waited for it
	}()
	parent := cmd.Process.Pid
	var child proc.Process
	await := func(what string, is func(p *proc.Process) bool) {
		t.Helper()
		wait.Until(t, "a child "+what, func() bool {
			all := proc.Others()
			i := slices.IndexFunc(all, func(p proc.Process) bool { return p.Parent == parent && is(&p) })
			if i >= 0 {
				child = all[i]
			}
			return i >= 0
		})
	}
	newJob := func(shell int) *job {
		return &job{shell: shell, members: map[int]uint64{child.PID: child.Start}, groups: map[int]bool{}}
	}
	await("at all", func(*proc.Process) bool { return true })
	mine, other := newJob(parent), newJob(parent+1)
	await("that is dead", (*proc.Process).Dead)
	for _, j := range []*job{mine, other} {
		m := &Manager{}
		m.addJob(j, nil)
		j.refresh(proc.Others())
	}
	if mine.dead.IsZero() || !mine.ended.IsZero() || len(mine.members) != 1 {
		t.Errorf("the shell has not reaped it, and it is over: %+v", mine)
	}
	if other.ended.IsZero() {
		t.Errorf("another shell's zombie keeps it: %+v", other)
	}
	if !mine.await(nil) || time.Since(mine.dead) < reapLimit || len(mine.members) != 0 {
		t.Errorf("a shell that does not reap: %+v", mine)
	}
}
