package proc

import (
	"bytes"
	"os"
	"strconv"
)

// A Use is what processes use.
type Use struct {
	Memory int64  // bytes that they do not share
	CPU    uint64 // as of [Process], together
}

// Descendants has processes by their parents.
type Descendants struct{ children map[int][]Process }

// NewDescendants returns the descendants that are among all.
func NewDescendants(all []Process) *Descendants {
	t := &Descendants{children: map[int][]Process{}}
	for _, p := range all {
		t.children[p.Parent] = append(t.children[p.Parent], p)
	}
	return t
}

// Use sums what the descendants of a process use.
func (t *Descendants) Use(pid int) (u Use) {
	for _, p := range t.children[pid] {
		below := t.Use(p.PID)
		u.Memory, u.CPU = u.Memory+below.Memory+private(p.PID), u.CPU+below.CPU+p.CPU
	}
	return u
}

// private returns how many bytes of memory a process does not share (proc_pid_statm(5)); 0 if it
// has ended.
func private(pid int) int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	f := bytes.Fields(text)
	if err != nil || len(f) < 3 {
		return 0
	}
	resident, _ := strconv.ParseInt(string(f[1]), 10, 64)
	shared, _ := strconv.ParseInt(string(f[2]), 10, 64)
	return max(0, resident-shared) * int64(os.Getpagesize())
}
