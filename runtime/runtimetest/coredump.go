package runtimetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/suite"
	"wolffia/runtime"
)

var coreDumpTests = []test{
	{"CrashRunsNoHandler", []Feature{Isolation}, crashRunsNoHandler},
	{"CoreDumpLimitStays", []Feature{Isolation}, coreDumpLimitStays},
}

// crashes are Python programs that crash, after they have tried to change the limit
// that keeps the kernel from running a handler: directly, by either system call, and
// with bits set that the kernel ignores.
var crashes = map[string]string{
	"plain":              "",
	"limit 0":            "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))",
	"limit 0, soft":      "resource.setrlimit(resource.RLIMIT_CORE, (0, 1))",
	"setrlimit":          "libc.syscall(160, ctypes.c_long(4), none)",
	"setrlimit, bits":    "libc.syscall(160, ctypes.c_long(1 << 32 | 4), none)",
	"prlimit64":          "libc.syscall(302, ctypes.c_long(0), ctypes.c_long(4), none, None)",
	"prlimit64, bits":    "libc.syscall(302, ctypes.c_long(0), ctypes.c_long(1 << 32 | 4), none, None)",
	"prlimit64 of child": "pid = os.fork() or signal.pause(); resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0)); os.kill(pid, signal.SIGSEGV); os.waitpid(pid, 0)",
	"after exec":         "os.environ.get('AGAIN') or os.execve('/bin/sh', ['sh', '-c', 'ulimit -c 0; kill -SEGV $$'], {'AGAIN': '1'})",
}

const crash = `
import ctypes, os, resource, signal
libc = ctypes.CDLL(None)
none = (ctypes.c_ulong * 2)(0, 0)
%s
os.kill(os.getpid(), signal.SIGSEGV)
`

// A crash inside does not run what kernel.core_pattern names, which the kernel would
// run as root, outside, with the memory of the crashed process to read.
func crashRunsNoHandler(e *env) {
	if os.Getuid() != 0 {
		e.Skip("only root can have the host run a handler of core dumps")
	}
	log := handleCoreDumps(e)
	if was := (unix.Rlimit{}); mayRaiseLimits(e) {
		// As root has it from sudo(8). No other test needs another limit.
		e.OK(unix.Getrlimit(unix.RLIMIT_CORE, &was))
		e.Cleanup(func() { e.OK(unix.Setrlimit(unix.RLIMIT_CORE, &was)) })
		e.OK(unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}))
	}
	s := e.start(&runtime.SandboxConfig{Name: "crashes-" + newTag()})
	for name, attempt := range crashes {
		r := e.exec(s.ID, &runtime.ExecRequest{Command: []string{"/usr/bin/python3", "-ISBc", fmt.Sprintf(crash, attempt)}, Timeout: suite.Limit / 4})
		if r.ExitCode != 128+int(unix.SIGSEGV) {
			e.Errorf("%s: it does not crash: %+v", name, r)
		}
		if handled, _ := os.ReadFile(log); strings.Contains(string(handled), s.Name) {
			e.Errorf("%s: the host's handler has run: %s", name, handled)
			e.OK(os.Truncate(log, 0))
		}
	}
}

// mayRaiseLimits reports whether the caller has CAP_SYS_RESOURCE, which root in a
// container does not.
func mayRaiseLimits(e *env) bool {
	e.Helper()
	header, data := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	e.OK(unix.Capget(&header, &data[0]))
	return data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// handleCoreDumps has the kernel run a program for each crash, and to wait for it,
// until the test is over. It returns the name of a file where the program writes the
// host name of what has crashed. Only one test on this machine does so at a time.
// What was set before is set again by a process of its own, whatever becomes of the
// test.
func handleCoreDumps(e *env) (log string) {
	e.Helper()
	const pattern, limit = "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/core_pipe_limit"
	dir := e.TempDir()
	log = filepath.Join(dir, "log")
	handler := filepath.Join(dir, "handler")
	e.write(log, "")
	e.OK(os.WriteFile(handler, []byte("#!/bin/sh\necho \"$1\" >>"+log+"\n"), 0o755))
	held, err := os.Open(pattern)
	e.OK(err)
	defer held.Close() // the process that restores has it too
	e.OK(unix.Flock(int(held.Fd()), unix.LOCK_EX))
	ended, over, err := os.Pipe()
	e.OK(err)
	restore := exec.Command("sh", "-c", `
p=$(cat `+pattern+`) l=$(cat `+limit+`)
echo ready
read x
printf %s "$p" >`+pattern+`; printf %s "$l" >`+limit)
	restore.Stdin, restore.ExtraFiles = ended, []*os.File{held}
	restore.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	ready, err := restore.StdoutPipe()
	e.OK(err)
	e.OK(restore.Start())
	e.OK(ended.Close())
	e.Cleanup(func() {
		_ = over.Close()
		e.OK(restore.Wait())
	})
	e.Expect(ready, "ready\n")
	e.OK(os.WriteFile(limit, []byte("16"), 0))
	e.OK(os.WriteFile(pattern, []byte("|"+handler+" %h"), 0))
	// A crash outside shows that the handler works.
	_ = exec.CommandContext(e.Ctx, "sh", "-c", "ulimit -c 0; kill -SEGV $$").Run()
	if got, err := os.ReadFile(log); err != nil || len(got) == 0 {
		e.Skip("the kernel cannot run a program of this mount namespace")
	}
	return log
}

// The limit cannot be changed, and programs that try are not told.
func coreDumpLimitStays(e *env) {
	s := e.common()
	e.prints(s.ID, `python3 -ISBc '
import resource
for wanted in (0, 0), (-1, -1), (4096, 4096):
    resource.setrlimit(resource.RLIMIT_CORE, wanted)
    print(resource.getrlimit(resource.RLIMIT_CORE))
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
print(resource.getrlimit(resource.RLIMIT_NOFILE))
'`, strings.Repeat("(1, 1)\n", 3)+"(100, 100)\n")
}
