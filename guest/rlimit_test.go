package guest_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/test/testenv"
	"wolffia/wire"
	"wolffia/wire/client"
)

// limited starts a guest that puts limits on what it starts.
func limited(t *testing.T, limits string) *client.Conn {
	t.Setenv(rlimitsVariable, limits)
	conn, _ := start(t)
	return conn
}

// With limits a command is what it is without, but for the limits, and PID 1 has
// none.
func TestRlimits(t *testing.T) {
	conn := limited(t, "0,536870912")
	if r := sh(t, conn, `ulimit -d; ulimit -Hd; echo $0; set -- /proc/$$/fd/*; echo $#; readlink /proc/$$/exe`); r.stdout != "524288\n524288\nsh\n4\n"+shell(t)+"\n" { // 0 to 2, and the directory
		t.Errorf("sh: got r.stdout %q, r.stderr %q; want r.stdout == %q+shell(t)+%q", r.stdout, r.stderr, "524288\n524288\nsh\n4\n", "\n")
	}
	if r := sh(t, conn, "grep 'data size' /proc/1/limits"); !strings.Contains(r.stdout, "unlimited            unlimited") {
		t.Errorf("PID 1: %q", r.stdout)
	}
	if r := sh(t, conn, "ulimit -d unlimited"); r.Code == 0 {
		t.Error("the limit can be raised")
	}
	if r := sh(t, conn, "exec python3 -c 'b = bytearray(700 << 20)'"); r.Code != 1 || !strings.Contains(r.stderr, "MemoryError") {
		t.Errorf("700 MiB: %+v", r)
	}
}

// A program that cannot be executed is reported as without limits.
func TestRlimitsOfWhatCannotRun(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"script": "echo ran $1\n", "lost": "#!/no/such/interpreter\n", "closed": "#!/bin/sh\n"} {
		mode := os.FileMode(0o755)
		if name == "closed" {
			mode = 0o644
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	conn := limited(t, "0,536870912")
	r, err := run(t, conn, client.Request{StartRequest: wire.StartRequest{Args: []string{"./script", "x"}, Dir: dir}})
	if err != nil || r.stdout != "ran x\n" {
		t.Errorf("a script without a first line: %+v, %v", r, err)
	}
	for name, code := range map[string]int{"lost": 127, "closed": 126, "none": 127} {
		_, err := run(t, conn, client.Request{StartRequest: wire.StartRequest{Args: []string{filepath.Join(dir, name)}, Dir: "/"}})
		if failed, ok := errors.AsType[*client.StartError](err); !ok || failed.Code != code {
			t.Errorf("%s: %v, want code %d", name, err, code)
		}
	}
}

// The number of processes is limited, and PID 1 continues to start and to end others.
func TestRlimitOfProcesses(t *testing.T) {
	testenv.Unprivileged(t) // the kernel does not limit root
	conn := limited(t, "20,0")
	const bomb = `
import os, time
n = 0
try:
    while n < 300:
        if os.fork() == 0: time.sleep(1000)
        n += 1
except OSError as err: print(n, err.strerror, flush=True)
time.sleep(1000)
`
	said := make(chan string, 1)
	p, err := conn.Start(&client.Request{
		StartRequest: wire.StartRequest{Args: []string{"python3", "-c", bomb}, Env: env},
		OnStdout:     func(b []byte) { said <- string(b) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := <-said; got != "19 Resource temporarily unavailable\n" { // and itself
		t.Errorf("got %q, want %q", got, "19 Resource temporarily unavailable\n")
	}
	for range 20 {
		if r := sh(t, conn, "echo alive"); r.stdout != "alive\n" {
			t.Fatalf("with the bomb there: %+v", r)
		}
	}
	if r := sh(t, conn, "echo | cat"); r.Code == 0 {
		t.Error("there is room for two more processes")
	}
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
	_, _ = p.Wait(t.Context())
	if r := sh(t, conn, "echo alive | cat"); r.stdout != "alive\n" {
		t.Errorf("afterwards: %+v", r)
	}
}

// No process inside gets hold of a command before it has its limits: a process whose memory could
// be written, as by ptrace(2), has all limits.
func TestRlimitsBeforeAnybodyCanTrace(t *testing.T) {
	conn := limited(t, "30,536870912")
	const attack = `
import os, resource
def limits(pid):
    return [resource.prlimit(pid, r)[1] for r in [resource.RLIMIT_NPROC, resource.RLIMIT_DATA]]
def newest():
    with open('/proc/loadavg') as f: return int(f.read().split()[-1])
own, last, held = limits(0), newest(), 0
print('up', flush=True)
while True:
    for pid in range(max(2, last - 16), last + 4):
        try:
            os.close(os.open('/proc/%d/mem' % pid, os.O_RDWR))
            if limits(pid) != own: print('caught', flush=True)
            elif pid != os.getpid():
                held += 1
                if held == 1: print('held', flush=True)
        except OSError: pass
    last = max(last, newest())
`
	p, err := conn.Start(&client.Request{StartRequest: wire.StartRequest{Args: []string{"python3", "-c", attack}, Env: env}})
	if err != nil {
		t.Fatal(err)
	}
	out := newScanner(p.Stdout())
	out.expect(t, "up\n")
	for range testenv.Some(300) {
		sh(t, conn, ":")
	}
	// One that stays is seen at last, or the attack would show nothing.
	seen, err := conn.Start(&client.Request{StartRequest: wire.StartRequest{Args: []string{"sleep", "100"}, Env: env}})
	if err != nil {
		t.Fatal(err)
	}
	caught := 0
	for line := ""; line != "held\n"; {
		if line = out.next(t); line == "caught\n" {
			caught++
		}
	}
	for _, p := range []*client.Process{p, seen} {
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	for line := range out.lines {
		if line == "caught\n" {
			caught++
		}
	}
	if caught > 0 {
		t.Errorf("of 300 commands %d were caught before they had their limits", caught)
	}
}

// shell is where sh is.
func shell(t *testing.T) string {
	t.Helper()
	path, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	return path
}
