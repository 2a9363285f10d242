// Remains runs a command, then fails if anything of it is left.
//
//	remains DIR CMD [ARG...]
//
// Processes count whose ancestor the command was, whatever they have done to be
// rid of it: remains is their subreaper (PR_SET_CHILD_SUBREAPER(2const)). Mounts
// count that were not there before, below DIR; control groups of sandboxes
// that were not there before and that have no process: one of a sandbox
// that somebody else runs has some. So nothing that others do on the
// machine meanwhile is taken for a remainder.
//
// Remains ends the processes, and exits with the command's code, or with 1 if that
// was 0 and something is left.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/proc"
)

// patience is how long what is ending may take to be gone.
const patience = time.Minute

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: remains DIR CMD [ARG...]")
		os.Exit(2)
	}
	code, left, err := run(os.Args[1], os.Args[2:], patience)
	for _, l := range left {
		fmt.Fprintln(os.Stderr, "remains: left behind:", l)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "remains:", err)
	}
	if code == 0 && (err != nil || len(left) > 0) {
		code = 1
	}
	os.Exit(code)
}

// run runs a command, and returns its exit code and what it has left.
func run(dir string, command []string, patience time.Duration) (code int, left []string, err error) {
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return 0, nil, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, nil, fmt.Errorf("prctl(PR_SET_CHILD_SUBREAPER): %w", err)
	}
	mountsBefore, groupsBefore := mounts(dir), groups()
	path, err := exec.LookPath(command[0])
	if err != nil {
		return 0, nil, err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	process, err := os.StartProcess(path, command, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return 0, nil, err
	}
	go func() { // ends with the program
		for s := range signals {
			if s != unix.SIGINT { // a ^C goes to all of the terminal's processes
				_ = process.Signal(s)
			}
		}
	}()
	r := reap(process.Pid)
	code = <-r.code
	end := time.Now().Add(patience)
	select {
	case <-r.all:
	case <-time.After(patience):
		left = append(left, kill(r)...)
	}
	left = append(left, over(mountsBefore, end, func() map[string]string { return mounts(dir) })...)
	return code, append(left, over(groupsBefore, end, groups)...), nil
}

// A reaper waits for children, and for those that become ours because their
// parents are gone.
type reaper struct {
	code chan int      // is sent the exit code of the first
	all  chan struct{} // closed when no process is left
}

// reap waits for all children; main is the first.
func reap(main int) *reaper {
	r := &reaper{make(chan int, 1), make(chan struct{})}
	go func() { // ends with the last
		defer close(r.all)
		for {
			var status unix.WaitStatus
			pid, err := unix.Wait4(-1, &status, 0, nil)
			switch {
			case errors.Is(err, unix.EINTR):
			case err != nil: // ECHILD
				return
			case pid == main && status.Signaled():
				r.code <- 128 + int(status.Signal())
			case pid == main:
				r.code <- status.ExitStatus()
			}
		}
	}()
	return r
}

// kill ends all descendants, and returns what they were.
func kill(r *reaper) (left []string) {
	seen := map[int]bool{}
	for { // what one has started meanwhile is next
		var killed bool
		for _, p := range descendants() {
			if !seen[p.PID] {
				seen[p.PID], killed = true, true
				left = append(left, describe(p))
				same := func() (bool, error) {
					return slices.ContainsFunc(descendants(), func(d proc.Process) bool { return d.PID == p.PID && d.Start == p.Start }), nil
				}
				if fd, err := proc.Signal(p.PID, unix.SIGKILL, same); err == nil && fd >= 0 {
					_ = unix.Close(fd)
				}
			}
		}
		if !killed {
			break
		}
	}
	select {
	case <-r.all:
	case <-time.After(patience):
		left = append(left, "processes that cannot be killed")
	}
	return left
}

// descendants are the living processes that come from this one.
func descendants() []proc.Process {
	children := map[int][]proc.Process{}
	for _, p := range proc.Others() {
		if !p.Dead() {
			children[p.Parent] = append(children[p.Parent], p)
		}
	}
	var all []proc.Process
	for next := []int{os.Getpid()}; len(next) > 0; next = next[1:] {
		for _, p := range children[next[0]] {
			all, next = append(all, p), append(next, p.PID)
		}
	}
	return all
}

func describe(p proc.Process) string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
	return fmt.Sprintf("process %d: %.3000q", p.PID, strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " ")))
}

// over is what there is now and was not before, once nothing is, or at end.
func over(before map[string]string, end time.Time, look func() map[string]string) []string {
	for {
		now := look()
		maps.DeleteFunc(now, func(id, _ string) bool { _, was := before[id]; return was })
		if len(now) == 0 || time.Now().After(end) {
			return slices.Sorted(maps.Values(now))
		}
		time.Sleep(100 * time.Millisecond) // the kernel reports only one of the two
	}
}

// mounts are those below dir: identity, and a name for the reader
// (proc_pid_mountinfo(5)).
func mounts(dir string) map[string]string {
	all := map[string]string{}
	text, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 4 && (f[4] == dir || strings.HasPrefix(f[4], dir+"/")) {
			all[f[0]+" "+f[4]] = "mount " + f[4]
		}
	}
	return all
}

// groupPattern is what the groups of sandboxes are called (local/limits.go).
const groupPattern = "wolffia-????????????-*"

// groups are the control groups of sandboxes without a process.
func groups() map[string]string {
	all := map[string]string{}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() { // it is gone
			return nil
		}
		if is, _ := filepath.Match(groupPattern, d.Name()); is {
			if !populated(path) {
				all[path] = "control group " + path
			}
			return fs.SkipDir
		}
		return nil
	})
	return all
}

// populated reports whether a process is in a group or below it.
func populated(group string) bool {
	found := false
	_ = filepath.WalkDir(group, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "cgroup.procs" {
			pids, _ := os.ReadFile(path)
			found = found || len(pids) > 0
		}
		return nil
	})
	return found
}
