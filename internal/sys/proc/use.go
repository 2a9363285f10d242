package proc

import (
	"bytes"
	"cmp"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
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

// maxLooked is how many processes Running looks at.
const maxLooked = 64

// Running returns the command lines of processes in the PID namespace that a descendant of a process
// has made, at most most, the newest first: of the children of that namespace's PID 1, and in place
// of a shell that waits for input of its children. nil: there is no such namespace.
func (t *Descendants) Running(pid, most int) []string {
	init := t.init(pid, 3)
	if init == 0 {
		return nil
	}
	all := t.busy(init, 3)
	slices.SortFunc(all, func(a, b Process) int { return cmp.Compare(b.Start, a.Start) })
	lines := []string{}
	for _, p := range all[:min(len(all), maxLooked)] {
		if text := commandLine(p.PID); text != "" && len(lines) < most && !p.Dead() {
			lines = append(lines, text)
		}
	}
	return lines
}

// busy returns the children of a process, and in place of a shell that reads commands, or a copy of
// it, its children, so many levels deep.
func (t *Descendants) busy(pid, levels int) (all []Process) {
	for _, p := range t.children[pid] {
		switch {
		case !interactive(p.PID):
			all = append(all, p)
		case levels > 1:
			all = append(all, t.busy(p.PID, levels-1)...)
		}
	}
	return all
}

// init returns PID 1 of a PID namespace, at most so many levels below a process; 0: there is none.
func (t *Descendants) init(pid, levels int) int {
	for _, p := range t.children[pid] {
		if numbers, err := Status(p.PID, "NSpid"); err == nil && len(numbers) > 1 && numbers[len(numbers)-1] == "1" {
			return p.PID
		}
		if levels > 1 {
			if found := t.init(p.PID, levels-1); found != 0 {
				return found
			}
		}
	}
	return 0
}

// maxCommandLine is how many bytes of a command line are read.
const maxCommandLine = 256

// commandLine returns the beginning of the command line of a process as printable text; empty: it
// has none.
func commandLine(pid int) string {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, maxCommandLine)
	n, _ := f.Read(b)
	text := strings.ToValidUTF8(strings.TrimRight(string(b[:n]), "\x00"), "\uFFFD")
	return strings.Map(func(c rune) rune {
		switch {
		case c == 0:
			return ' '
		case strconv.IsPrint(c):
			return c
		}
		return '\uFFFD'
	}, text)
}

// interactive reports whether a process is a shell that reads commands: its options say so.
func interactive(pid int) bool {
	words := strings.Fields(commandLine(pid))
	return len(words) > 1 && slices.Contains([]string{"bash", "sh"}, path.Base(words[0])) && words[len(words)-1] == "-i"
}
