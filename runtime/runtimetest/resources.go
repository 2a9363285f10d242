package runtimetest

import (
	"strings"

	"wolffia/runtime"
)

var resourceTests = []test{
	{"LimitMemory", []Feature{Limits}, limitMemory},
	{"LimitPIDs", []Feature{Limits}, limitPIDs},
	{"LimitCPUs", []Feature{Limits}, limitCPUs},
}

// A program that takes more than the limit is ended, and the sandbox goes on.
func limitMemory(e *env) {
	s := e.start(&runtime.SandboxConfig{Resources: runtime.Resources{Memory: 64 << 20}})
	const take = "python3 -c 'b = bytearray(%); print(len(b))'"
	e.prints(s.ID, strings.Replace(take, "%", "20 << 20", 1), "20971520\n")
	if r := e.sh(s.ID, strings.Replace(take, "%", "200 << 20", 1)); r.ExitCode == 0 {
		e.Errorf("200 MiB were given: %s", r.Stdout)
	}
	// What is in memory as files counts too.
	if r := e.sh(s.ID, "head -c 200M /dev/zero >/tmp/file"); r.ExitCode == 0 {
		e.Error("a file of 200 MiB in memory was made")
	}
	e.prints(s.ID, "rm -f /tmp/file; echo alive", "alive\n")
}

// So many processes there are, and PID 1 still starts another when some have
// ended.
func limitPIDs(e *env) {
	s := e.start(&runtime.SandboxConfig{Resources: runtime.Resources{PIDs: 20}})
	const bomb = `
import os, time
n = 0
try:
    while n < 300:
        if os.fork() == 0: time.sleep(1000)
        n += 1
except OSError as err: print(err.strerror)
print(5 <= n < 100)
os.kill(-1, 9)
`
	r := e.exec(s.ID, &runtime.ExecRequest{Command: []string{"python3", "-c", bomb}})
	if got := string(r.Stdout); got != "Resource temporarily unavailable\nTrue\n" {
		e.Errorf("%q %q", got, r.Stderr)
	}
	e.prints(s.ID, "echo alive", "alive\n")
}

// A program that never waits gets no more time than that.
func limitCPUs(e *env) {
	s := e.start(&runtime.SandboxConfig{Resources: runtime.Resources{CPUs: 0.2}})
	e.prints(s.ID, `exec python3 -c '
import time
t, c = time.monotonic(), time.process_time()
while time.monotonic() - t < 2: pass
print(time.process_time() - c < 1)'`, "True\n")
}
