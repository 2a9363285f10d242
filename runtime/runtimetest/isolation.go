package runtimetest

import (
	"fmt"
	"os"
	"strings"

	"wolffia/internal/sys/timerslack"
	"wolffia/internal/test/suite"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// The first security invariant: deny by default.
var isolationTests = []test{
	{"OnlyDescriptors012", []Feature{Isolation}, onlyDescriptors012},
	{"NoCapabilities", []Feature{Isolation}, noCapabilities},
	{"NoNewPrivileges", []Feature{Isolation}, noNewPrivileges},
	{"NoNewUserNamespaces", []Feature{Isolation}, noNewUserNamespaces},
	{"OwnNamespaces", []Feature{Isolation, HostKernel}, ownNamespaces},
	{"OwnKernel", []Feature{Isolation}, ownKernel},
	{"NewSession", []Feature{Isolation}, newSession},
	{"HostProcessesInvisible", []Feature{Isolation}, hostProcessesInvisible},
	{"KillEverything", []Feature{Isolation}, killEverything},
	{"PID1OutOfReach", []Feature{Isolation}, pid1OutOfReach},
	{"PID1NotSignalled", []Feature{Isolation}, pid1NotSignalled},
	{"PathOfGuestReadOnly", []Feature{Isolation}, guestReadOnly},
	{"TimerSlack", []Feature{Isolation, HostKernel}, timerSlack},
}

// A process has its three descriptors, however it is started.
func onlyDescriptors012(e *env) {
	leak, err := os.Open(os.Args[0]) // one more that could be inherited
	e.OK(err)
	defer leak.Close()
	s := e.start(e.open(e.dir()))
	// What is open once the directory is closed from which that was read.
	script := []string{"/usr/bin/python3", "-ISBc", `
import os
def there(fd):
    try: os.fstat(fd)
    except OSError: return False
    return True
print(*[fd for fd in sorted(map(int, os.listdir('/proc/self/fd'))) if there(fd)])
`}
	for what, spec := range map[string]*runtime.Command{
		"plain":  {Command: script},
		"input":  {Command: script, OpenStdin: true},
		"merged": {Command: script, Merge: true},
		"tty":    {Command: script, TTY: true},
	} {
		if spec.TTY && !e.has(Terminal) {
			continue
		}
		p := e.process(s.ID, spec)
		if got := strings.Fields(e.All(p.Stdout())); strings.Join(got, " ") != "0 1 2" {
			e.Errorf("%s: descriptors %v", what, got)
		}
		e.wait(p)
	}
}

// A program sleeps as exactly as on the host: the slack of wolffia's own processes is not
// inherited. Its default, which 0 sets, is the same (PR_SET_TIMERSLACK in prctl(2)).
func timerSlack(e *env) {
	s := e.start(e.open(e.dir()))
	const script = `python3 -ISBc 'f = "/proc/self/timerslack_ns"; print(open(f).read(), end=""); open(f, "w").write("0"); print(open(f).read(), end="")'`
	want := strings.Repeat(fmt.Sprintln(timerslack.Default.Nanoseconds()), 2)
	if got := e.out(s.ID, script); got != want {
		e.Errorf("a program has the slack and the default %q, want %q", got, want)
	}
	p := e.process(s.ID, &runtime.Command{Session: "slack", Create: true, Command: []string{script}})
	if got := e.All(p.Stdout()); got != want {
		e.Errorf("a session's command has the slack and the default %q, want %q", got, want)
	}
	e.wait(p)
}

// status returns what the kernel says of a process inside.
func (e *env) status(id string) map[string]string {
	e.Helper()
	got := map[string]string{}
	for line := range strings.Lines(e.out(id, "cat /proc/self/status")) {
		key, value, _ := strings.Cut(line, ":")
		got[key] = strings.TrimSpace(value)
	}
	return got
}

func noCapabilities(e *env) {
	got := e.status(e.common().ID)
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if strings.Trim(got[set], "0") != "" || got[set] == "" {
			e.Errorf("%s is %q", set, got[set])
		}
	}
}

func noNewPrivileges(e *env) {
	got := e.status(e.common().ID)
	if got["NoNewPrivs"] != "1" || got["Seccomp"] != "2" {
		e.Errorf("NoNewPrivs %s, Seccomp %s, want 1 and 2", got["NoNewPrivs"], got["Seccomp"])
	}
}

func noNewUserNamespaces(e *env) {
	s := e.common()
	// The flags of clone(2) for user, mount, pid, net, ipc, uts, cgroup and
	// time namespaces; each by unshare (272) and by clone (56).
	e.refused(s.ID, `
for f in [0x10000000, 0x20000, 0x20000000, 0x40000000, 0x8000000, 0x4000000, 0x2000000, 0x80, 0x10020000]:
    attempt('unshare %x' % f, lambda: libc.unshare(f) == 0 or (_ for _ in ()).throw(OSError(ctypes.get_errno(), '')))
if os.uname().machine == 'x86_64':
    pid = libc.syscall(56, ctypes.c_long(0x10000000 | 17), 0, 0, 0, 0)
    if pid == 0: os._exit(0)
    print('clone', 'works' if pid > 0 else errno.errorcode[ctypes.get_errno()])
else: print('clone is not tried')
for name in ['user', 'mnt', 'net']:
    attempt('setns ' + name, lambda: libc.setns(os.open('/proc/1/ns/' + name, os.O_RDONLY), 0) == 0 or (_ for _ in ()).throw(OSError(ctypes.get_errno(), '')))
`, 13)
}

func ownNamespaces(e *env) {
	s, other := e.start(nil), e.start(nil)
	for _, kind := range []string{"user", "mnt", "pid", "ipc", "uts", "net", "cgroup"} {
		if kind == "user" && !e.has(UserNamespace) {
			continue
		}
		host, err := os.Readlink("/proc/self/ns/" + kind)
		e.OK(err)
		const ask = "readlink /proc/self/ns/"
		mine, others := e.out(s.ID, ask+kind), e.out(other.ID, ask+kind)
		if mine == host+"\n" || mine == others || !strings.HasPrefix(mine, kind+":") {
			e.Errorf("%s namespace: host %s, sandbox %q, another sandbox %q", kind, host, mine, others)
		}
	}
}

// sameKernel reports whether the kernel is the host's, by what it says of
// itself.
func (e *env) sameKernel(id string) bool {
	e.Helper()
	host, err := os.ReadFile("/proc/version")
	e.OK(err)
	return e.out(id, "cat /proc/version") == string(host)
}

// The kernel is the one that the runtime says. One that is not the host's is
// the runtime's own: nothing of the host shows in what it reports of itself.
func ownKernel(e *env) {
	s := e.common()
	if got := e.sameKernel(s.ID); got != e.has(HostKernel) {
		e.Errorf("the host's kernel answers: %v", got)
	}
	if e.has(HostKernel) {
		return
	}
	for _, file := range []string{"uptime", "sys/kernel/random/boot_id", "loadavg", "stat"} {
		host, err := os.ReadFile("/proc/" + file)
		e.OK(err)
		if r := e.sh(s.ID, "cat /proc/"+file); string(r.Stdout) == string(host) {
			e.Errorf("/proc/%s is the host's", file)
		}
	}
	if tasks := e.out(s.ID, "ls /proc"); strings.Contains(tasks, "kallsyms") || strings.Contains(tasks, "kcore") {
		e.Errorf("/proc has %s", tasks)
	}
}

// A command has no terminal of the caller's, and its session is one of the
// sandbox's own: its number would be 0 if it were not (proc_pid_stat(5)).
func newSession(e *env) {
	s := e.common()
	for _, pid := range []string{"self", "1"} {
		f := strings.Fields(e.out(s.ID, "cat /proc/"+pid+"/stat"))
		if len(f) < 8 || f[4] == "0" || f[5] == "0" || f[6] != "0" {
			e.Errorf("/proc/%s/stat: %v; want a process group, a session, and no terminal", pid, f)
		}
	}
	if r := e.sh(s.ID, ": </dev/tty"); r.ExitCode == 0 {
		e.Error("/dev/tty can be opened")
	}
}

func hostProcessesInvisible(e *env) {
	s := e.start(nil)
	tag := e.background(e.start(nil).ID, "") // another sandbox's
	if n := e.count(s.ID, tag); n != 0 {
		e.Errorf("%d processes of another sandbox are visible", n)
	}
	// PID 1, the shell and ls, and no other process.
	if got := e.out(s.ID, "ls -d /proc/[0-9]* | wc -l"); strings.TrimSpace(got) > "4" || len(got) != 2 {
		e.Errorf("%s processes are visible: %s", strings.TrimSpace(got), e.out(s.ID, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"))
	}
	r := e.sh(s.ID, fmt.Sprintf("kill -0 %d", os.Getpid()))
	if r.ExitCode == 0 && os.Getpid() > 100 {
		e.Error("the test's own process can be reached")
	}
}

// Whatever a program kills, the sandbox lives.
func killEverything(e *env) {
	s := e.start(nil)
	for _, script := range []string{
		"kill -9 -1", "kill -STOP -1", "kill -9 1", "kill -STOP 1; kill -TERM 1; kill -SEGV 1",
		"for i in $(seq 1 64); do kill -9 $i; kill -STOP $i; done", "kill -KILL 0",
	} {
		// It may stop itself and never continue: hence the suite.Limit.
		_ = e.exec(s.ID, &runtime.ExecRequest{Command: sh("(" + script + ") 2>/dev/null"), Timeout: suite.Limit / 60})
		e.is(s.ID, runtime.StateRunning)
		e.prints(s.ID, "echo alive", "alive\n")
	}
}

func pid1OutOfReach(e *env) {
	s := e.common()
	attempts := `
for f in ['mem', 'environ', 'maps', 'auxv', 'syscall', 'stack']:
    attempt(f, lambda: open('/proc/1/' + f, 'rb').read(1) or (_ for _ in ()).throw(OSError(errno.EACCES, '')))
for f in ['map_files']:
    attempt(f, lambda: os.listdir('/proc/1/' + f))
for f in ['exe', 'root', 'cwd']:
    attempt(f, lambda: os.readlink('/proc/1/' + f))
for f in [0, 1, 2, 3]:
    attempt('fd/%d' % f, lambda: os.open('/proc/1/fd/%d' % f, os.O_RDWR))
attempt('mem for writing', lambda: open('/proc/1/mem', 'r+b'))
attempt('oom_score_adj', lambda: open('/proc/1/oom_score_adj', 'w').write('1000'))
for request in [16, 0x4206]: # PTRACE_ATTACH, PTRACE_SEIZE
    attempt('ptrace', lambda: libc.ptrace(request, 1, 0, 0) == 0 or (_ for _ in ()).throw(OSError(ctypes.get_errno(), '')))
attempt('prlimit', lambda: __import__('resource').prlimit(1, __import__('resource').RLIMIT_NOFILE, (3, 3)))
attempt('setpriority', lambda: os.setpriority(os.PRIO_PROCESS, 1, 19))
attempt('affinity', lambda: os.sched_setaffinity(1, [0]))
attempt('pidfd', lambda: os.pidfd_open(1))
`
	n := 22
	// another one may show the numbers of descriptors, and of its one network
	if e.has(HostKernel) {
		attempts += `
attempt('fd', lambda: os.listdir('/proc/1/fd'))
attempt('ns/net', lambda: os.readlink('/proc/1/ns/net'))
`
		n += 2
	}
	e.refused(s.ID, attempts, n)
	e.prints(s.ID, "echo alive", "alive\n")
}

// Nothing makes the kernel signal PID 1: neither as the owner of a descriptor, by
// its number, its group's or a pointer to it, nor by its directory in /proc, which
// serves as a pidfd. SIGSEGV not sent by kill(2) looks like a fault of its own; in
// gVisor PID 1 could be killed and stopped by any.
func pid1NotSignalled(e *env) {
	s := e.start(nil)
	out := e.python(s.ID, `
import fcntl, signal, struct
F_SETSIG, F_SETOWN_EX, FIOSETOWN, SIOCSPGRP, PIDFD_SEND_SIGNAL = 10, 15, 0x8901, 0x8902, 424
def tried(name, f):
    try: f()
    except OSError: pass
def fire(own, sig):
    a, b = socket.socketpair()
    fcntl.fcntl(a, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    tried('signal', lambda: fcntl.fcntl(a, F_SETSIG, sig))
    tried('owner', lambda: own(a))
    b.send(b'x')
signals = [signal.SIGIO, signal.SIGSEGV, signal.SIGSTOP, signal.SIGKILL]
threads = list(range(1, 9))
for sig in signals:
    for n in threads:
        for who in [n, -n]:
            fire(lambda a: fcntl.fcntl(a, fcntl.F_SETOWN, who), sig)
            for request in [FIOSETOWN, SIOCSPGRP]:
                fire(lambda a: fcntl.ioctl(a, request, struct.pack('i', who)), sig)
        for kind in [0, 1, 2]: # F_OWNER_TID, F_OWNER_PID, F_OWNER_PGRP
            fire(lambda a: fcntl.fcntl(a, F_SETOWN_EX, struct.pack('ii', kind, n)), sig)
    proc = os.open('/proc/1', os.O_RDONLY | os.O_DIRECTORY)
    for code in [-1, -60]: # SI_QUEUE, SI_ASYNCNL
        info = ctypes.create_string_buffer(struct.pack('iii', sig, 0, code), 128)
        libc.syscall(PIDFD_SEND_SIGNAL, proc, int(sig), info, 0)
    libc.syscall(PIDFD_SEND_SIGNAL, proc, int(sig), None, 0)
# What programs do to be told of their own input.
got = []
signal.signal(signal.SIGIO, lambda *_: got.append('SIGIO'))
fire(lambda a: fcntl.fcntl(a, fcntl.F_SETOWN, os.getpid()), signal.SIGIO)
print(*set(got))
`)
	if out != "SIGIO\n" {
		e.Errorf("a process's own signal: %q, want SIGIO", out)
	}
	e.is(s.ID, runtime.StateRunning)
	e.prints(s.ID, "echo alive", "alive\n")
}

func guestReadOnly(e *env) {
	s := e.common()
	for _, script := range []string{"echo x >" + launch.GuestPath, "rm " + launch.GuestPath, "mv /run/wolffia /run/other", "chmod 777 " + launch.GuestPath} {
		if r := e.sh(s.ID, script); r.ExitCode == 0 {
			e.Errorf("%s works", script)
		}
	}
}
