// Package leak checks that a test leaves nothing behind in its process: open
// descriptors, goroutines, mounts, child processes.
//
//	func TestX(t *testing.T) {
//		leak.Check(t)
//
// It compares the whole process before and after, so it is not for tests that
// run in parallel with others. Finalizers are not waited for: what only they
// would close is a leak.
package leak

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"wolffia/internal/test/wait"
)

// patience is how long what is ending may take to be gone.
const patience = time.Minute

// Check fails t, when it and all its later cleanups are done, if something is
// left that was not there when Check was called, and names it. What is about
// to end has a few seconds for that. A goroutine is no leak if its stack has a
// function with a name that contains one of allowed: it stays on purpose.
//
// Mounts that are made below the system's directory for temporary files count
// only if they are in a directory of this test: other tests mount there too.
func Check(t testing.TB, allowed ...string) {
	t.Helper()
	check(t, patience, allowed)
}

func check(t testing.TB, patience time.Duration, allowed []string) {
	t.Helper()
	startPoller(t)
	w := watch{allowed: allowed, temp: filepath.Dir(t.TempDir())}
	before := w.look()
	t.Cleanup(func() {
		t.Helper()
		for _, name := range w.wait(before, patience) {
			t.Errorf("left behind: %s", name)
		}
	})
}

// startPoller has the runtime open its descriptors for polling, which stay.
func startPoller(t testing.TB) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = r.Close(), w.Close()
}

// A watch is what a check needs to know.
type watch struct {
	allowed []string
	temp    string // the directory of the test, at its first TempDir
}

// look returns all there is now: identity, and a name for the reader.
func (w *watch) look() map[string]string {
	all := map[string]string{}
	descriptors(all)
	goroutines(all, w.allowed)
	mounts(all, w.temp)
	children(all)
	return all
}

// wait returns the names of what is there and was not before, when it is
// nothing or patience is at its end.
func (w *watch) wait(before map[string]string, patience time.Duration) []string {
	var after map[string]string
	wait.Within(patience, func() bool {
		after = w.look()
		maps.DeleteFunc(after, func(id, _ string) bool {
			_, ok := before[id]
			return ok
		})
		return len(after) == 0
	})
	return slices.Sorted(maps.Values(after))
}

// descriptors adds the open descriptors. The same number with another file is
// another descriptor.
func descriptors(all map[string]string) {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	own := fmt.Sprint(dir.Fd())
	for _, fd := range names {
		if target, err := os.Readlink("/proc/self/fd/" + fd); err == nil && fd != own {
			id := fmt.Sprintf("descriptor %s: %s", fd, target)
			all[id] = id
		}
	}
}

// mounts adds the mounts of this process's namespace; proc_pid_mountinfo(5). Those of
// namespaces, as ip-netns(8) makes them, are of others on this machine.
func mounts(all map[string]string, temp string) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		_, after, ok := strings.Cut(line, " - ")
		if kind := strings.Fields(after); ok && len(fields) > 4 && len(kind) > 0 && kind[0] != "nsfs" && ours(fields[4], temp) {
			all["mount "+fields[0]+" "+fields[4]] = fmt.Sprintf("mount of %s at %s", kind[0], fields[4])
		}
	}
}

// ours reports whether a mount may be made by the test with the directory temp,
// whose name is the test's and a number. So are those of its subtests.
func ours(point, temp string) bool {
	if strings.HasPrefix(point, strings.TrimRight(temp, "0123456789")) {
		return true
	}
	for _, shared := range []string{filepath.Dir(temp), "/tmp"} { // TMPDIR may be elsewhere
		if strings.HasPrefix(point, shared+"/") {
			return false
		}
	}
	return true
}

// children adds the child processes of all threads, also those that are dead
// and not waited for; proc_tid_children(5).
func children(all map[string]string) {
	files, _ := filepath.Glob("/proc/self/task/*/children")
	for _, file := range files {
		text, _ := os.ReadFile(file) // a thread that ended has none
		for pid := range strings.FieldsSeq(string(text)) {
			command, _ := os.ReadFile("/proc/" + pid + "/cmdline")
			name := strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " "))
			if name == "" {
				name = state(pid)
			}
			all["child "+pid] = fmt.Sprintf("child process %s: %s", pid, name)
		}
	}
}

// state returns the name and the state of a process without a command line.
func state(pid string) string {
	text, _ := os.ReadFile("/proc/" + pid + "/stat")
	name, rest, _ := strings.Cut(string(text), ") ")
	_, name, _ = strings.Cut(name, "(")
	if strings.HasPrefix(rest, "Z") {
		return name + ", which is dead and not waited for"
	}
	return name
}
