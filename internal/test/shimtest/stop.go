package shimtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"wolffia/internal/test/wait"
)

// Stop stops a process with SIGSTOP, and returns when none of its threads runs any more
// (proc_pid_stat(5)): until one of them has taken the signal, the others go on.
func Stop(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, fmt.Sprintf("the stop of process %d", pid), func() bool {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if b, err := os.ReadFile(file); err == nil && !strings.Contains(string(b), ") T ") {
				return false
			}
		}
		return true
	})
}
