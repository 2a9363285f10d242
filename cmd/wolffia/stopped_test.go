package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/wait"
)

// pid1 is the number on the host of a sandbox's PID 1.
func (b *box) pid1() int {
	b.Helper()
	var id string
	var all []listing
	b.OK(json.Unmarshal([]byte(b.says("ls", "--json")), &all))
	for _, l := range all {
		if l.Name == "box" {
			id = l.ID
		}
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	b.OK(err)
	for _, file := range files {
		text, _ := os.ReadFile(file)
		if strings.HasPrefix(string(text), "/run/wolffia/guest\x00") && strings.Contains(string(text), "\x00"+id+"-") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			b.OK(err)
			return pid
		}
	}
	b.Fatalf("no PID 1 of sandbox %s", id)
	return 0
}

// fails runs a command that must end with code, within the test's time, and say what.
func (b *box) fails(code int, says string, args ...string) {
	b.Helper()
	cmd := b.command(args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	_ = cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(errs.String(), says) {
		b.Errorf("%q: code %d, want %d; it says %q, want %q", args, got, code, errs.String(), says)
	}
}

// A stopped PID 1 delays no caller: a time-out holds, a second signal ends a
// client, and soon the sandbox is dead, for that reason, and can be removed.
func TestStoppedInit(t *testing.T) {
	b := newBox(t)
	b.says("exec", "--session", "s", "box", "--", "true")
	if got := b.says("exec", "--session", "s", "--timeout", "1m", "box", "--", "echo one"); got != "one\n" {
		t.Errorf(`says "exec" "--session" "s" "--timeout" "1m" "box" "--" "echo one": got %q, want %q`, got, "one\n")
	}
	running := b.begin("exec", "--session", "s", "--timeout", "1s", "box", "--", "trap '' INT TERM; echo begun; while :; do sleep 1; done")
	left := b.begin("exec", "box", "--", "sh", "-c", "trap '' INT TERM; echo begun; sleep 1000")
	b.OK(unix.Kill(b.pid1(), unix.SIGSTOP))
	const dead = "is dead: PID 1 has not answered for"
	var clients sync.WaitGroup
	for _, run := range []func(){
		func() { b.fails(124, "", "exec", "--timeout", "1s", "box", "--", "echo", "ran") },
		func() {
			if got := running.code(); got != 124 {
				b.Errorf("a session's command ended with %d", got)
			}
		},
		func() {
			if got := left.code(syscall.SIGTERM, syscall.SIGTERM); got != 143 {
				b.Errorf("after two signals: %d", got)
			}
		},
		func() { b.fails(125, dead, "exec", "box", "--", "true") },
		func() { b.fails(125, dead, "exec", "--session", "s", "--timeout", "1s", "box", "--", "true") },
	} {
		clients.Go(run)
	}
	ended := make(chan struct{})
	go func() { // ends with the clients
		clients.Wait()
		close(ended)
	}()
	wait.Receive(t, "the end of all clients", ended)
	var all []listing
	b.OK(json.Unmarshal([]byte(b.says("ls", "--json")), &all))
	if len(all) != 1 || all[0].State != "dead" || !strings.Contains(b.says("inspect", "box"), "PID 1 has not answered") {
		t.Errorf(`says "inspect" "box": got all %+v, %s; want len(all) == 1 and all[0].State == "dead" and b.says("inspect", "box") contains "PID 1 has not answered"`,
			all, b.says("inspect", "box"))
	}
	b.says("rm", "box")
}
