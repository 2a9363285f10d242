package guest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/test/suite"
	"wolffia/internal/test/wait"
	"wolffia/wire"
	"wolffia/wire/client"
)

// hideouts are ways to leave a process tree; each prints "up" when it is out.
var hideouts = map[string]string{
	"child":                   "sleep 1000 & echo up; wait",
	"grandchild":              "sh -c 'sleep 1000 & echo up; wait'",
	"own session":             "setsid sh -c 'echo up; exec sleep 1000'; wait",
	"own session, no pipes":   "setsid sh -c 'trap \"\" TERM HUP; echo up; exec >/dev/null 2>&1; while :; do sleep 1000; done' & wait",
	"orphan":                  "(sleep 1000 & echo up); sleep 1000",
	"daemon with our pipes":   "setsid sh -c 'setsid sh -c \"echo up; exec sleep 1000\" &' ; sleep 1000",
	"ignores INT, TERM, HUP":  "trap '' INT TERM HUP; echo up; while :; do sleep 1000; done",
	"stopped":                 "sleep 1000 & kill -STOP $!; echo up; wait",
	"forks all the time":      "echo up; f() { sleep 0.01; f & }; f; sleep 1000",
	"silent daemon, own pipe": "sleep 1000 </dev/null >/dev/null 2>&1 & echo up; wait",
}

func TestTimeoutKillsTheTree(t *testing.T) {
	for name, script := range hideouts {
		t.Run(name, func(t *testing.T) {
			conn, _ := start(t)
			var r result
			var err error
			suite.Timeouts(func(timeout time.Duration) (came bool) {
				r, err = run(t, conn, client.Request{StartRequest: wire.StartRequest{
					Args: []string{"sh", "-c", script}, TimeoutMS: uint64(timeout.Milliseconds()),
				}})
				return r.stdout != ""
			})
			if err != nil || !r.TimedOut || r.stdout != "up\n" {
				t.Errorf("%+v, %v: want a time-out with the output so far", r, err)
			}
			leftovers(t, conn)
		})
	}
}

func TestKillTree(t *testing.T) {
	for name, script := range hideouts {
		t.Run(name, func(t *testing.T) {
			conn, _ := start(t)
			killWhenUp(t, conn, script)
			leftovers(t, conn)
		})
	}
}

// killWhenUp starts a script that prints "up", and kills it then.
func killWhenUp(t *testing.T, conn *client.Conn, script string) {
	t.Helper()
	p, err := conn.Start(&client.Request{StartRequest: wire.StartRequest{Args: []string{"sh", "-c", script}, Env: env}})
	if err != nil {
		t.Fatal(err)
	}
	newScanner(p.Stdout()).expect(t, "up\n")
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if status, err := p.Wait(ctx); err != nil || status.Signal != int(syscall.SIGKILL) {
		t.Errorf("Wait: got status %+v, err %v; want err == nil and status.Signal == int(syscall.SIGKILL)", status, err)
	}
}

// A process that is given up as soon as it is asked for does not run.
func TestKillAtOnce(t *testing.T) {
	conn, _ := start(t)
	for range 200 {
		p, err := conn.Start(&client.Request{StartRequest: wire.StartRequest{Args: []string{"sleep", "1000"}, Env: env}})
		if err == nil {
			err = p.Kill()
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
		status, err := p.Wait(ctx)
		cancel()
		var failed *client.StartError
		if status.Signal != int(syscall.SIGKILL) && !errors.As(err, &failed) || failed != nil && (failed.Code != 125 || failed.Class != wire.ClassConflict) {
			t.Fatalf("Wait: got status %+v, failed %+v, err %v; want (status.Signal == int(syscall.SIGKILL) or errors.As(err, &failed)) and (failed == nil or (failed.Code == 125 and failed.Class == wire.ClassConflict))",
				status, failed, err)
		}
	}
	leftovers(t, conn)
}

// With the answer all killed processes have ended, and do not count any more.
func TestKilledIsGone(t *testing.T) {
	conn, cmd := start(t)
	for range 20 {
		killWhenUp(t, conn, "i=0; while [ $((i+=1)) -le 50 ]; do sleep 1000 & done; echo up; wait")
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", cmd.Process.Pid))
		for _, name := range tasks {
			if b, err := os.ReadFile(name); err != nil || len(b) > 0 {
				t.Fatalf("children of PID 1: %s, %v", b, err)
			}
		}
		if len(tasks) == 0 {
			t.Fatal("PID 1 has no threads")
		}
	}
}

// leftovers fails if anything but the guest and the asking command is alive,
// or dead and not reaped. Killed processes take a moment to be reaped: the
// command looks until it is alone, or the test's limit is over.
func leftovers(t *testing.T, conn *client.Conn) {
	t.Helper()
	got := sh(t, conn, `i=0; until set -- /proc/[0-9]* && [ $# -eq 2 ]; do
		i=$((i+1)); [ $i -lt 400000 ] || { cat /proc/[0-9]*/stat; break; }; done`)
	if got.stdout != "" {
		t.Errorf("left over:\n%s", got.stdout)
	}
}

// A background process that holds the output must not hold the result.
func TestHeldOutput(t *testing.T) {
	conn, _ := start(t)
	got := sh(t, conn, "sleep 1000 & echo done; exit 4")
	if got.stdout != "done\n" || got.Code != 4 {
		t.Errorf(`sh "sleep 1000 & echo done; exit 4": got %+v; want got.stdout == %q and got.Code == 4`, got, "done\n")
	}
	// It lives on, and may write without dying of it.
	got = sh(t, conn, "until pgrep -x sleep >/dev/null; do :; done; echo alive")
	if got.stdout != "alive\n" {
		t.Errorf("the background process is gone: %+v", got)
	}
}

// All output of the command itself arrives, also when another process holds the pipe and the pipe
// is full.
func TestHeldOutputIsComplete(t *testing.T) {
	conn, _ := start(t)
	for range 20 {
		got := sh(t, conn, "sleep 1000 & head -c 1000000 /dev/zero")
		if len(got.stdout) != 1_000_000 {
			t.Fatalf("%d bytes of 1000000", len(got.stdout))
		}
	}
}

func TestSignal(t *testing.T) {
	conn, _ := start(t)
	p, err := conn.Start(&client.Request{StartRequest: wire.StartRequest{
		Args: []string{"sh", "-c", "trap 'exit 9' USR1; echo ready; while :; do sleep 0.01; done"}, Env: env,
	}})
	if err != nil {
		t.Fatal(err)
	}
	newScanner(p.Stdout()).expect(t, "ready\n")
	if err := p.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	// The whole group gets it, so the sleep may end the loop with 128+10 first.
	if status, err := p.Wait(ctx); err != nil || status.Code != 9 {
		t.Errorf("Wait: got status %+v, err %v; want err == nil and status.Code == 9", status, err)
	}
}

// A process that is stopped ends by a signal that asks it to.
func TestSignalOfStopped(t *testing.T) {
	conn, _ := start(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		for tty, ready := range map[bool]string{false: "ready\n", true: "ready\r\n"} {
			p, err := conn.Start(&client.Request{StartRequest: wire.StartRequest{
				Args: []string{"sh", "-c", `(until grep -q '^State:.T' /proc/$$/status; do :; done; echo ready) & kill -STOP $$; echo not here`}, Env: env, TTY: tty,
			}})
			if err != nil {
				t.Fatal(err)
			}
			newScanner(p.Stdout()).expect(t, ready)
			if err := p.Signal(sig); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
			if status, err := p.Wait(ctx); err != nil || status.Code != 128+int(sig) {
				t.Errorf("%v, terminal %v: %+v, %v", sig, tty, status, err)
			}
			cancel()
		}
	}
}

func TestReapsOrphans(t *testing.T) {
	conn, _ := start(t)
	sh(t, conn, "for i in 1 2 3 4 5 6 7 8 9 10; do (true & true &); done")
	leftovers(t, conn)
}

// attacks are what a process of the sandbox may try on PID 1. Each must fail;
// python is what has all the calls at hand.
var attacks = map[string]string{
	"kill":              "os.kill(1, 9)",
	"kill STOP":         "os.kill(1, 19)",
	"kill QUIT":         "os.kill(1, 3)",
	"kill SEGV":         "os.kill(1, 11)",
	"kill a thread":     "os.kill(2, 9)",
	"tgkill":            "call(234, 1, 1, 3)",
	"tgkill thread":     "call(234, 1, 2, 3)",
	"tkill":             "call(200, 2, 3)",
	"sigqueue":          "call(129, 1, 3, buf)",
	"pidfd_open":        "call(434, 1, 0)",
	"prlimit":           "resource.prlimit(1, resource.RLIMIT_NOFILE, (3, 3))",
	"prlimit thread":    "resource.prlimit(5, resource.RLIMIT_NOFILE, (3, 3))",
	"prlimit high bits": "call(302, (7 << 32) | 1, 7, buf, 0)",
	"nice":              "os.setpriority(os.PRIO_PROCESS, 1, 19)",
	"nice thread":       "os.setpriority(os.PRIO_PROCESS, 3, 19)",
	"nice user":         "os.setpriority(os.PRIO_USER, os.getuid(), 19)",
	"affinity":          "os.sched_setaffinity(1, {0})",
	"scheduler":         "os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))",
	"ioprio":            "call(251, 1, 1, 0)",
	"ptrace":            "call(101, 16, 1, 0, 0)",
	"memory":            "open('/proc/1/mem', 'r+b')",
	"stream":            "open('/proc/1/fd/1', 'wb')",
	"environ":           "open('/proc/1/environ').read()",
	"i386":              "int80()",
	"owner":             "fcntl.fcntl(0, fcntl.F_SETOWN, 1)",
	"owner, thread":     "fcntl.fcntl(0, fcntl.F_SETOWN, 5)",
	"owner, group":      "fcntl.fcntl(0, fcntl.F_SETOWN, -1)",
	"owner, high bits":  "call(72, 0, (7 << 32) | 8, (7 << 32) | 1)",
	"owner, pointer":    "call(72, 0, 15, struct.pack('ii', 1, 1))",
	"owner, ioctl":      "call(16, socket.socketpair()[0].fileno(), 0x8901, struct.pack('i', 1))",
	"owner's signal":    "call(72, 0, 10, 9)",
	"signal by /proc":   "signal.pidfd_send_signal(os.open('/proc/1', os.O_RDONLY), signal.SIGTERM)",
	"fault by /proc":    "call(424, os.open('/proc/1', os.O_RDONLY), 11, segv, 0)",
}

const attackPrelude = `
import ctypes, fcntl, mmap, os, resource, signal, socket, struct
segv = ctypes.create_string_buffer(struct.pack('iii', 11, 0, -1), 128)
libc = ctypes.CDLL(None, use_errno=True)
buf = ctypes.create_string_buffer(b"\x03" + bytes(255))
def call(nr, *args):
    r = libc.syscall(ctypes.c_long(nr), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if r < 0:
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e))
def int80():
    # mov eax, 37 (kill); mov ebx, 1; mov ecx, 9; int 0x80; ret
    code = bytes.fromhex("53b825000000bb01000000b909000000cd805bc3")
    m = mmap.mmap(-1, 4096, prot=7)
    m.write(code)
    f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))
    child = os.fork()
    if child == 0:
        os._exit(f() < 0)
    if os.waitpid(child, 0)[1] != 0: # a kernel without 32-bit calls kills it
        raise PermissionError("refused")
try:
    %s
    print("IT WORKED")
except (OSError, PermissionError) as e:
    print("refused")
`

func TestGuestDefendsItself(t *testing.T) {
	conn, _ := start(t)
	for name, attack := range attacks {
		got, err := run(t, conn, client.Request{StartRequest: wire.StartRequest{
			Args: []string{"python3", "-c", fmt.Sprintf(attackPrelude, attack)},
		}})
		if err != nil || got.stdout != "refused\n" {
			t.Errorf("%s: got %+v, err %v; want err == nil and got.stdout == %q", name, got, err, "refused\n")
		}
	}
	// The caller itself is spared too (kill(2)).
	if got := sh(t, conn, "sleep 1000 & kill -9 -1; wait; echo alone"); got.stdout != "alone\n" {
		t.Errorf("kill -9 -1: %+v", got)
	}
	if got := sh(t, conn, "echo alive"); got.stdout != "alive\n" {
		t.Errorf("after the attacks: %+v", got)
	}
}

// A signal that follows the request at once is for the process, which may not be there yet.
func TestEarlySignal(t *testing.T) {
	conn, _ := start(t)
	for _, tty := range []bool{false, true} {
		for i := range 20 {
			p, err := conn.Start(&client.Request{StartRequest: wire.StartRequest{Args: []string{"/bin/sleep", "1000"}, TTY: tty}})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
			status, err := p.Wait(ctx)
			cancel()
			if err != nil || status.Signal != int(syscall.SIGTERM) {
				t.Fatalf("terminal %v, %d: %+v, %v", tty, i, status, err)
			}
		}
	}
}

// PID 1 has the kernel drop signals: to catch one wakes its threads. Its children have the default
// actions, also of those that it has ignored from its start on: a shell has what it starts in the
// background ignore SIGINT and SIGQUIT, and nohup(1) SIGHUP.
func TestSignalsAreDropped(t *testing.T) {
	conn, _ := start(t)
	signalsAreDropped(t, conn)
}

func TestIgnoredSignalsAreDropped(t *testing.T) {
	for sig := syscall.SIGHUP; sig <= 64; sig++ {
		if sig != syscall.SIGCHLD { // without it nothing can be waited for
			signal.Ignore(sig)
		}
	}
	t.Cleanup(func() { signal.Reset() })
	conn, _ := start(t)
	signalsAreDropped(t, conn)
}

func signalsAreDropped(t *testing.T, conn *client.Conn) {
	t.Helper()
	caught := func(sig syscall.Signal) bool {
		return slices.Contains([]syscall.Signal{
			syscall.SIGILL, syscall.SIGTRAP, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGSEGV, syscall.SIGPIPE,
			syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
			33, // by the runtime, in any program
		}, sig)
	}
	ignored := func(sig syscall.Signal) bool {
		return !caught(sig) && !slices.Contains([]syscall.Signal{
			syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGCHLD, syscall.SIGCONT, 32, 34,
		}, sig)
	}
	for process, want := range map[string]map[string]func(syscall.Signal) bool{
		"1":    {"SigCgt": caught, "SigIgn": ignored},
		"self": {"SigIgn": func(syscall.Signal) bool { return false }},
	} {
		for field, has := range want {
			line := sh(t, conn, fmt.Sprintf("exec grep %s /proc/%s/status", field, process)).stdout
			var signals uint64 // bit 0 is signal 1 (proc(5))
			if _, err := fmt.Sscanf(line, field+": %x", &signals); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			for sig := syscall.SIGHUP; sig <= 64; sig++ {
				if got := signals>>(sig-1)&1 == 1; got != has(sig) {
					t.Errorf("%s of %s: signal %d (%v): %v", field, process, int(sig), sig, got)
				}
			}
		}
	}
}

// What the guard must leave alone: everything on a program's own processes.
func TestGuardRefusesNothingElse(t *testing.T) {
	conn, _ := start(t)
	got, err := run(t, conn, client.Request{StartRequest: wire.StartRequest{Args: []string{"python3", "-c", `
import errno, fcntl, os, resource, signal, subprocess, threading
c = subprocess.Popen(["sleep", "1000"])
resource.prlimit(c.pid, resource.RLIMIT_NOFILE, (100, 100))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
os.setpriority(os.PRIO_PROCESS, c.pid, 5)
os.setpriority(os.PRIO_PROCESS, 0, 5)
os.sched_setaffinity(c.pid, {0})
os.sched_setaffinity(0, {0})
os.sched_setscheduler(c.pid, os.SCHED_BATCH, os.sched_param(0))
fd = os.pidfd_open(c.pid)
try: signal.pidfd_send_signal(fd, signal.SIGTERM) # programs then use kill
except OSError as e: assert e.errno == errno.ENOSYS
os.kill(c.pid, signal.SIGTERM)
assert c.wait() == -15
for who in [os.getpid(), -os.getpgrp(), 0]:
    fcntl.fcntl(0, fcntl.F_SETOWN, who)
t = threading.Thread(target=lambda: os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 7))
t.start(); t.join()
os.kill(0, 0); os.kill(os.getpid(), 0)
print("fine")
`}}})
	if err != nil || got.stdout != "fine\n" {
		t.Errorf("run: got %+v, err %v; want err == nil and got.stdout == %q", got, err, "fine\n")
	}
}

// The guard knows the numbers of the threads that there are when it is made;
// so under load there must be no others.
func TestThreadsStayInTheGuardedRange(t *testing.T) {
	conn, _ := start(t)
	threads := func() string { return sh(t, conn, "ls /proc/1/task").stdout }
	before := threads()
	var all []*client.Process
	for range 50 {
		p, err := conn.Start(&client.Request{StartRequest: wire.StartRequest{
			Args: []string{"sh", "-c", "head -c 3000000 /dev/zero; read x"}, Env: env, Stdin: true,
		}, OnStdout: func([]byte) {}})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if after := threads(); after != before {
		t.Errorf("threads of PID 1 before\n%s\nand under load\n%s", before, after)
	}
	for _, p := range all {
		_ = p.Kill()
	}
}

func TestShutdown(t *testing.T) {
	conn, cmd := start(t)
	p, err := conn.Start(&client.Request{StartRequest: wire.StartRequest{
		Args: []string{"sh", "-c", "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done"}, Env: env,
	}})
	if err != nil {
		t.Fatal(err)
	}
	out := newScanner(p.Stdout())
	out.expect(t, "ready\n")
	if err := conn.Shutdown(wait.Limit); err != nil {
		t.Fatal(err)
	}
	out.expect(t, "bye\n")
	if err := cmd.Wait(); err != nil {
		t.Errorf("the guest ended with %v", err)
	}
}

// When its grace is over, PID 1 ends whatever runs.
func TestShutdownInTime(t *testing.T) {
	conn, cmd := start(t)
	p, err := conn.Start(&client.Request{StartRequest: wire.StartRequest{
		Args: []string{"sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.01; done"}, Env: env,
	}})
	if err != nil {
		t.Fatal(err)
	}
	out := newScanner(p.Stdout())
	out.expect(t, "ready\n")
	if err := conn.Shutdown(10 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(wait.Limit, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the guest ended with %v", err)
	}
}
