package runtimetest

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"wolffia/internal/test/testenv"
	"wolffia/runtime"
)

var resourceTests = []test{
	{"LimitMemory", []Feature{Limits}, limitMemory},
	{"LimitMemoryFiles", []Feature{Limits}, limitMemoryFiles},
	{"LimitPIDs", []Feature{Limits}, limitPIDs},
	{"LimitPIDsWhileFull", []Feature{Limits}, limitPIDsWhileFull},
	{"LimitCPUs", []Feature{Limits}, limitCPUs},
	{"LimitsRestart", []Feature{Limits}, limitsRestart},
	{"LimitsDead", []Feature{Limits, Death}, limitsDead},
	{"LimitsBestEffort", []Feature{Isolation}, limitsBestEffort},
	{"LimitsBeforeTrace", []Feature{Isolation}, limitsBeforeTrace},
}

const mebibyte = 1 << 20

// take is a command that uses so many MiB of memory.
func take(mib int) string {
	return fmt.Sprintf("exec python3 -c 'b = bytearray(%d << 20); print(len(b))'", mib)
}

// A program that takes more than the limit is ended, and the sandbox goes on; or
// it says why it does not.
func limitMemory(e *env) {
	s := e.start(&runtime.SandboxConfig{Resources: runtime.Resources{Memory: 128 * mebibyte}})
	e.prints(s.ID, take(40), fmt.Sprintln(40*mebibyte))
	r, err := e.rt.Exec(e.Ctx, s.ID, &runtime.ExecRequest{Command: sh(take(400))})
	if e.has(OutOfMemory) {
		e.OK(err)
		if r.ExitCode == 0 {
			e.Errorf("400 MiB were given: %s", r.Stdout)
		}
		e.prints(s.ID, "echo alive", "alive\n")
		return
	}
	e.Wrong("a sandbox that is out of memory", err, runtime.ErrConflict)
	s, err = e.rt.Get(e.Ctx, s.ID)
	if err != nil || s.State != runtime.StateDead || !strings.Contains(s.Reason, "limit of memory, 134217728 bytes, was reached") {
		e.Errorf(`Get: got s %+v, err %v; want err == nil and s.State == runtime.StateDead and s.Reason contains "limit of memory, 134217728 bytes, was reached"`,
			s, err)
	}
	e.OK(e.rt.Start(e.Ctx, s.ID))
	e.prints(s.ID, "echo alive", "alive\n")
}

// What is in memory as files counts too, wherever it is, and leaves room for
// programs.
func limitMemoryFiles(e *env) {
	s := e.start(&runtime.SandboxConfig{Resources: runtime.Resources{Memory: 128 * mebibyte}})
	for _, place := range []string{"/tmp", "$HOME", "/workspace", "/dev/shm", "/dev", "/run/.w", "/var/tmp"} {
		if r := e.sh(s.ID, "head -c 200M /dev/zero >"+place+"/file"); r.ExitCode == 0 {
			e.Errorf("a file of 200 MiB in memory was made in %s", place)
		}
	}
	e.prints(s.ID, take(10), fmt.Sprintln(10*mebibyte))
}

// bomb makes processes until there can be no more, and says how many there are;
// then it ends them all, or waits with them.
func bomb(wait bool) []string {
	end := `
os.kill(-1, 9)
try:
    while True: os.wait()
except ChildProcessError: pass
`
	if wait {
		end = "time.sleep(1000)"
	}
	return []string{"python3", "-c", `
import os, time
n = 1
try:
    while n < 300:
        if os.fork() == 0: time.sleep(1000)
        n += 1
except OSError as err: print(n, err.strerror, flush=True)
` + end}
}

// full is what a bomb says where there can be pids processes; or up to two more,
// where the room for what is not the sandbox's is not all taken: see
// launch.InitThreads.
func full(said []byte, pids int) bool {
	n, why, _ := strings.Cut(string(said), " ")
	got, err := strconv.Atoi(n)
	return err == nil && pids <= got && got <= pids+2 && why == "Resource temporarily unavailable\n"
}

// explode runs a bomb that ends.
func (e *env) explode(id string, pids int) {
	e.Helper()
	r := e.exec(id, &runtime.ExecRequest{Command: bomb(false)})
	if !full(r.Stdout, pids) {
		e.Errorf("of %d processes: %q %q", pids, r.Stdout, r.Stderr)
	}
}

// So many processes there are, and PID 1 still starts another when they have
// ended.
func limitPIDs(e *env) {
	s := e.start(&runtime.SandboxConfig{Resources: runtime.Resources{PIDs: 20}})
	for range 3 {
		e.explode(s.ID, 20)
		e.prints(s.ID, "echo alive", "alive\n")
	}
}

// While no process can be added, PID 1 still does what needs none:
// it answers, refuses, and ends what there is.
func limitPIDsWhileFull(e *env) {
	s := e.start(&runtime.SandboxConfig{Resources: runtime.Resources{PIDs: 20}})
	p, err := e.rt.StartProcess(e.Ctx, s.ID, &runtime.Command{Command: bomb(true)})
	e.OK(err)
	said := make([]byte, 200)
	n, err := p.Stdout().Read(said)
	if err != nil || !full(said[:n], 20) {
		e.Errorf("Read: got %q, err %v; want err == nil and full(said[:n], 20)", said[:n], err)
	}
	var trying sync.WaitGroup
	for range 30 {
		trying.Go(func() { // whether it works depends on what counts
			_, _ = e.rt.Exec(e.Ctx, s.ID, &runtime.ExecRequest{Command: sh("echo x | cat")})
		})
	}
	trying.Wait()
	e.OK(p.Close())
	_, err = p.Wait(e.Ctx)
	e.OK(err)
	e.prints(s.ID, "echo alive | cat", "alive\n")
}

// A program that never waits gets no more time than that. Another kernel than the
// host's counts time that it had not.
func limitCPUs(e *env) {
	if !e.has(HostKernel) {
		e.start(&runtime.SandboxConfig{Resources: runtime.Resources{CPUs: 0.2}})
		return
	}
	s := e.start(&runtime.SandboxConfig{Resources: runtime.Resources{CPUs: 0.2}})
	e.prints(s.ID, `exec python3 -c '
import time
t, c = time.monotonic(), time.process_time()
while time.monotonic() - t < 2: pass
print(time.process_time() - c < 1)'`, "True\n")
}

// Limits are there again with every start.
func limitsRestart(e *env) {
	s := e.start(&runtime.SandboxConfig{Resources: runtime.Resources{PIDs: 10, CPUs: 1, Memory: 256 * mebibyte}})
	e.explode(s.ID, 10)
	for range 2 {
		e.OK(e.rt.Stop(e.Ctx, s.ID))
		e.OK(e.rt.Start(e.Ctx, s.ID))
		e.explode(s.ID, 10)
	}
}

// What a killed host process leaves of limits does not hinder the next start.
func limitsDead(e *env) {
	s := e.start(&runtime.SandboxConfig{Resources: runtime.Resources{PIDs: 10, CPUs: 1, Memory: 256 * mebibyte}})
	e.Crash(e.TB, e.rt, s.ID)
	e.OK(e.rt.Start(e.Ctx, s.ID))
	e.explode(s.ID, 10)
	e.Crash(e.TB, e.rt, s.ID) // and so the end has something to remove
}

// As far as it can be, a limit is kept everywhere.
func limitsBestEffort(e *env) {
	s := e.start(&runtime.SandboxConfig{Resources: runtime.Resources{PIDs: 20, CPUs: 1, Memory: 256 * mebibyte, BestEffort: true}})
	e.explode(s.ID, 20)
	e.prints(s.ID, "echo alive", "alive\n")
}

// No process can trace a new one before that has its limits, to run it without them
// what it is not to. Whose memory can be written to can be traced (proc_pid_mem(5)).
func limitsBeforeTrace(e *env) {
	s := e.start(&runtime.SandboxConfig{Resources: runtime.Resources{PIDs: 30, BestEffort: true}})
	p, err := e.rt.StartProcess(e.Ctx, s.ID, &runtime.Command{OpenStdin: true, Command: []string{"python3", "-c", `
import os, resource, select
def limit(pid): return resource.prlimit(pid, resource.RLIMIT_NPROC)[1]
own, seen, caught = limit(0), 0, 0
print('up', flush=True)
while not select.select([0], [], [], 0)[0]:
    for pid in map(int, filter(str.isdigit, os.listdir('/proc'))):
        try:
            if pid in (1, os.getpid()) or limit(pid) == own: continue
            seen += 1
            os.close(os.open('/proc/%d/mem' % pid, os.O_RDWR))
            caught += limit(pid) != own
        except OSError: pass
print(caught, 'of', seen)
`}})
	e.OK(err)
	up := make([]byte, 3)
	_, err = io.ReadFull(p.Stdout(), up)
	e.OK(err)
	for range testenv.Some(100) {
		e.prints(s.ID, "echo alive", "alive\n")
	}
	e.OK(p.Stdin().Close())
	said, err := io.ReadAll(p.Stdout())
	e.OK(err)
	_, err = p.Wait(e.Ctx)
	e.OK(err)
	if !strings.HasPrefix(string(said), "0 of ") {
		e.Errorf("processes caught without limits: %s", said)
	}
}
