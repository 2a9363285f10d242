package proc

import (
	"errors"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/wait"
)

func TestTree(t *testing.T) {
	all := []Process{
		{PID: 10, Parent: 1, Group: 10, Session: 10, Start: 1},
		{PID: 11, Parent: 10, Group: 11, Session: 10, Start: 5},             // a child
		{PID: 12, Parent: 11, Group: 12, Session: 12, Start: 6},             // its child, in another session
		{PID: 13, Parent: 1, Group: 13, Session: 10, Start: 6},              // an orphan in the session
		{PID: 14, Parent: 1, Group: 14, Session: 14, Start: 6},              // a daemon that holds a file
		{PID: 15, Parent: 1, Group: 15, Session: 15, Start: 6},              // of another command
		{PID: 16, Parent: 1, Group: 16, Session: 16, Start: 6},              // a daemon that has the mark
		{PID: 20, Parent: 10, Group: 20, Session: 10, Start: 2},             // an earlier job
		{PID: 21, Parent: 20, Group: 20, Session: 10, Start: 7},             // its new child
		{PID: 22, Parent: 20, Group: 22, Session: 22, Start: 7},             // another, in a session of its own
		{PID: 30, Parent: 10, Group: 30, Session: 10, Start: 9},             // the number of an earlier one, used again
		{PID: 31, Parent: 10, Group: 31, Session: 10, Start: 9, State: 'Z'}, // dead
	}
	before, groups := map[int]uint64{20: 2, 30: 3}, map[int]bool{20: true}
	marked := func(pid int) bool { return pid == 16 || pid == 22 }
	holds := func(pid int) (bool, error) {
		if pid == 15 {
			return false, errors.ErrUnsupported
		}
		return pid == 14, nil
	}
	withoutRoot := slices.Clone(all[1:])
	for name, tt := range map[string]struct {
		tree Tree
		all  []Process
		want []int
	}{
		"a command of a shell":       {Tree{Root: 10, Shell: true, Before: before, Groups: groups}, all, []int{11, 12, 13, 14, 16, 30}},
		"all of a shell":             {Tree{Root: 10, Shell: true}, all, []int{11, 12, 13, 14, 16, 20, 21, 22, 30}},
		"a process":                  {Tree{Root: 10}, all, []int{10, 11, 12, 13, 14, 16, 20, 21, 22, 30}},
		"one that was reaped":        {Tree{Root: 10, Reaped: true}, withoutRoot, []int{11, 13, 14, 16, 20, 21, 22, 30}},
		"whose number is used again": {Tree{Root: 10, Reaped: true}, all, []int{14, 16, 22}},
		"no root":                    {Tree{}, all, []int{14, 16, 22}},
		"of which one is known":      {Tree{Root: 10, Reaped: true, Known: map[int]uint64{12: 6, 15: 5}}, withoutRoot[1:], []int{12, 13, 14, 16, 20, 21, 22, 30}},
		"whose child is known":       {Tree{Known: map[int]uint64{20: 2}}, all, []int{14, 16, 20, 21, 22}},
	} {
		found, unknown := tt.tree.find(tt.all, marked, holds)
		var got []int
		for _, p := range found {
			got = append(got, p.PID)
		}
		if !slices.Equal(got, tt.want) || unknown != 1 {
			t.Errorf("%s: %v and %d unknown, want %v and 1", name, got, unknown, tt.want)
		}
	}
}

// What a process has started is dead when Kill returns, a child that forks for ever
// and one with the mark in another session among them. What has the mark of another
// program's first tree lives.
func TestKillTree(t *testing.T) {
	other := exec.Command("sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = other.Process.Kill(), other.Wait() }()
	Mark(unix.RLIM_INFINITY - 1).Put(other.Process.Pid)
	mark := NewMark()
	cmd := exec.Command("sh", "-c", "read go; setsid sleep 1000 & sleep 1000 & f() { sleep 0.01 & }; while :; do f; done")
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	mark.Put(cmd.Process.Pid)
	if _, err := in.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	tree := Tree{Root: cmd.Process.Pid, Mark: mark}
	wait.For(t, "processes of the tree", func() int { found, _ := tree.Find(Others()); return len(found) }, func(n int) bool { return n > 3 })
	killed := tree.Kill(10 * time.Second)
	if found, _ := tree.Find(Others()); len(found) > 0 || !slices.Contains(killed, cmd.Process.Pid) {
		t.Errorf("of %d that were killed, %v live", len(killed), found)
	}
	_ = cmd.Wait()
	if slices.Contains(killed, other.Process.Pid) {
		t.Error("a process of another tree was killed")
	}
}

func TestDrain(t *testing.T) {
	now := time.Unix(100, 0)
	var d Drain
	if d.Complete(now) {
		t.Error("complete while the command runs")
	}
	d.Begin(now, Grace)
	d.Hold(10)
	d.Hold(99) // the first call counts
	if d.Complete(now.Add(time.Hour)) {
		t.Error("complete though 10 bytes are buffered")
	}
	d.Took(10, now)
	if at := now.Add(Quiet); d.Complete(at.Add(-1)) || !d.Complete(at) || !d.Next().Equal(at) {
		t.Errorf("after what was buffered: next %v", d.Next())
	}
	for at := now; at.Before(now.Add(Grace)); at = at.Add(Quiet / 2) { // a process that goes on writing
		if d.Took(1, at); d.Complete(at) {
			t.Errorf("complete after %v, though more comes", at.Sub(now))
		}
	}
	if !d.Complete(now.Add(Grace)) {
		t.Error("not complete after Grace")
	}
}
