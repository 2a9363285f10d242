package opensandbox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/servetest"
)

// pid1 returns the number on the host of a sandbox's PID 1.
func (w *world) pid1(id string) int {
	w.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	w.OK(err)
	for _, file := range files {
		text, _ := os.ReadFile(file)
		if strings.HasPrefix(string(text), "/run/wolffia/guest\x00") && strings.Contains(string(text), "\x00"+id+"-") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			w.OK(err)
			return pid
		}
	}
	w.Fatalf("no PID 1 of sandbox %s", id)
	return 0
}

// stopped reports whether a process exists and is stopped.
func stopped(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(text), ") T ")
}

// A sandbox whose PID 1 does not answer keeps the next service from nothing: it serves, and the
// timeouts of other sandboxes are kept.
func TestServesBesideSilentSandbox(t *testing.T) {
	p := servetest.NewProcess(t, "")
	w := &world{p.World}
	silent, _ := w.create("")
	_, execd := w.create("")
	pid := w.pid1(silent)
	w.OK(unix.Kill(pid, unix.SIGSTOP))
	defer func() { _ = unix.Kill(pid, unix.SIGCONT) }()
	w.Until("it is stopped", func() bool { return stopped(pid) })
	p.Kill()
	p.Start()
	if !stopped(pid) {
		t.Error("the service has waited until the silent sandbox was dead")
	}
	w.is("GET", "/v1/sandboxes/"+silent, "", 200, `"state":"Running"`)
	begun := w.run(execd+"/command", m{"command": "sleep 1000", "background": true, "timeout": 3000})
	p.Kill()
	p.Start()
	w.Until("the timeout", func() bool {
		_, _, text := w.Do("GET", execd+"/command/status/"+begun[0].Text, nil)
		return strings.Contains(text, `"running":false`)
	})
	if !stopped(pid) {
		t.Error("the timeout was kept after the silent sandbox was dead")
	}
}
