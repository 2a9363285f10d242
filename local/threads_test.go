package local_test

import (
	"os"
	"testing"
)

// A process that has many sandboxes has no thread for each: none waits for a process of the sandbox, or
// reads from a connection to it.
func TestManySandboxesShareThreads(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	threads := func() int {
		all, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	sh(t, rt, started(t, rt, codebase), "true")
	before := threads()
	const more = 40 // each had four
	for range more {
		if out, code := sh(t, rt, started(t, rt, codebase), "echo here"); out != "here\n" || code != 0 {
			t.Errorf("a command in a sandbox: got %q and exit code %d, want %q and 0", out, code, "here\n")
		}
	}
	if got := threads() - before; got > more {
		t.Errorf("%d sandboxes: got %d more threads, want at most one for each", more, got)
	}
}
