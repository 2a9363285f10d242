package runtimetest

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// What of the kernel is not offered.
var kernelTests = []test{
	{"KernelSettingsReadOnly", []Feature{Isolation}, kernelSettingsReadOnly},
	{"NoKernelSettingWritable", []Feature{Isolation}, noKernelSettingWritable},
	{"HostDetailsMasked", []Feature{Isolation}, hostDetailsMasked},
	{"KernelCallsRefused", []Feature{Isolation}, kernelCallsRefused},
	{"KernelCallsOffered", []Feature{Isolation}, kernelCallsOffered},
	{"SocketFamiliesRefused", []Feature{Isolation}, socketFamiliesRefused},
	{"TerminalInjectionRefused", []Feature{Isolation, Terminal}, terminalInjectionRefused},
	{"DevicesAreHarmless", []Feature{Isolation}, devicesAreHarmless},
}

func kernelSettingsReadOnly(e *env) {
	s := e.common()
	e.refused(s.ID, `
for f in ['sys/kernel/core_pattern', 'sys/kernel/modprobe', 'sys/kernel/hostname', 'sys/vm/overcommit_memory', 'sys/fs/suid_dumpable',
          'sys/net/ipv4/ip_forward', 'sysrq-trigger', 'kcore', 'kmsg', 'latency_stats', 'timer_list']:
    if os.path.exists('/proc/' + f) and os.stat('/proc/' + f).st_rdev == os.makedev(1, 3): # an engine covers it by /dev/null
        attempt(f, lambda: (_ for _ in ()).throw(OSError(errno.EACCES, '')))
    else:
        attempt(f, lambda: os.close(os.open('/proc/' + f, os.O_WRONLY)))
for f in ['/sys/kernel/uevent_helper', '/sys/fs/cgroup/cgroup.procs', '/sys/power/state']:
    attempt(f, lambda: os.close(os.open(f, os.O_WRONLY)))
`, 14)
}

// Not one file can be opened for writing, those of the sandbox's own namespaces
// included: with a low pid_max, for one, no command starts.
func noKernelSettingWritable(e *env) {
	s := e.common()
	e.prints(s.ID, `python3 -ISBc '
import os
tried = 0
for top in "sys", "bus", "fs", "irq":
    for dir, _, files in os.walk("/proc/" + top):
        for f in files:
            tried += 1
            try: os.close(os.open(dir + "/" + f, os.O_WRONLY | os.O_NONBLOCK))
            except OSError: continue
            print(dir + "/" + f, "can be written")
assert tried > 10, tried
for link in "ns_last_pid", "pid_max":
    try: os.rename("/proc/sys/kernel/" + link, "/proc/sys/kernel/x")
    except OSError: continue
    print(link, "can be renamed")
print("done")
'`, "done\n")
}

// Files about the host's keys, devices and processes are empty or refused: a
// key of the caller's, if it is the user inside too, shows in none of it.
func hostDetailsMasked(e *env) {
	if os.Getuid() != 0 {
		key, err := unix.AddKey("user", "wolffia-test-"+newTag(), []byte("x"), unix.KEY_SPEC_USER_KEYRING)
		e.OK(err)
		e.Cleanup(func() {
			_, err := unix.KeyctlInt(unix.KEYCTL_UNLINK, key, unix.KEY_SPEC_USER_KEYRING, 0, 0)
			e.OK(err)
		})
	}
	s := e.start(nil)
	e.prints(s.ID, `for f in acpi asound kcore keys latency_stats sched_debug scsi timer_list timer_stats; do
	[ -d /proc/$f ] && ls -A /proc/$f || head -c 10000 /proc/$f 2>/dev/null
done; true`, "")
}

// The numbers are those of x86-64 and arm64; those from 424 on are common.
func kernelCallsRefused(e *env) {
	s := e.common()
	e.refused(s.ID, `
x86 = os.uname().machine == 'x86_64'
def nr(a, b): return a if x86 else b
buf = ctypes.create_string_buffer(4096)
path = ctypes.c_char_p(b'/tmp')
sys('keyctl', nr(250, 219), 0, -3, 0)
sys('add_key', nr(248, 217), ctypes.c_char_p(b'user'), ctypes.c_char_p(b'k'), ctypes.c_char_p(b'v'), 1, -3)
sys('request_key', nr(249, 218), ctypes.c_char_p(b'user'), ctypes.c_char_p(b'k'), 0, -3)
sys('io_uring_setup', 425, 1, buf)
sys('io_uring_enter', 426, 0, 0, 0, 0, 0)
sys('io_uring_register', 427, 0, 0, 0, 0)
sys('userfaultfd', nr(323, 282), 0)
sys('bpf', nr(321, 280), 0, buf, 128)
sys('perf_event_open', nr(298, 241), buf, 0, -1, -1, 0)
sys('mount', nr(165, 40), ctypes.c_char_p(b'x'), path, ctypes.c_char_p(b'tmpfs'), 0, 0)
sys('umount2', nr(166, 39), path, 2)
sys('pivot_root', nr(155, 41), path, path)
sys('chroot', nr(161, 51), path)
sys('fsopen', 430, ctypes.c_char_p(b'tmpfs'), 0)
sys('open_tree', 428, -100, path, 1)
sys('move_mount', 429, -100, path, -100, path, 0)
sys('mount_setattr', 442, -100, path, 0, buf, 32)
sys('init_module', nr(175, 105), buf, 0, path)
sys('kexec_load', nr(246, 104), 0, 0, 0, 0)
sys('reboot', nr(169, 142), 0, 0, 0, 0)
sys('swapon', nr(167, 224), path, 0)
sys('sethostname', nr(170, 161), path, 4)
sys('setdomainname', nr(171, 162), path, 4)
sys('settimeofday', nr(164, 170), buf, 0)
sys('clock_settime', nr(227, 112), 0, buf)
sys('syslog', nr(103, 116), 3, buf, 4096)
sys('acct', nr(163, 89), path)
sys('open_by_handle_at', nr(304, 265), -100, buf, 0)
sys('quotactl', nr(179, 60), 0, 0, 0, 0)
sys('setuid', nr(105, 146), 0)
sys('setgid', nr(106, 144), 0)
sys('setgroups', nr(116, 159), 1, buf)
sys('mknod', nr(259, 33), -100, ctypes.c_char_p(b'/tmp/null'), 0o020666, 0x103)
sys('personality', nr(135, 92), 0x400000) # READ_IMPLIES_EXEC
attempt('execveat of a setuid program that works', lambda: os.setresuid(0, 0, 0))
`, 35)
}

// What ordinary programs need is there.
func kernelCallsOffered(e *env) {
	s := e.common()
	got := e.python(s.ID, `
import mmap, resource, select, signal, threading
attempt('thread', lambda: threading.Thread(target=print, args=('in a thread',)).start())
attempt('epoll', select.epoll)
attempt('mmap', lambda: mmap.mmap(-1, 1 << 20))
attempt('memfd', lambda: os.memfd_create('x'))
attempt('unix', lambda: socket.socketpair())
attempt('tcp', lambda: socket.create_server(('127.0.0.1', 0)))
attempt('netlink', lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
attempt('priority', lambda: os.setpriority(os.PRIO_PROCESS, 0, max(5, os.getpriority(os.PRIO_PROCESS, 0))))
attempt('affinity', lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)))
attempt('limits', lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)))
attempt('pidfd', lambda: os.pidfd_open(os.getpid()))
attempt('kill', lambda: os.kill(os.getpid(), 0))
attempt('fork', lambda: os.waitpid(os.fork() or os._exit(0), 0))
attempt('session', lambda: os.fork() or (os.setsid(), os._exit(0)))
`)
	for line := range strings.Lines(got) {
		if line != "in a thread\n" && !strings.HasSuffix(line, " works\n") {
			e.Errorf("got line %s; want line == %q or line ends with %q", line, "in a thread\n", " works\n")
		}
	}
}

func socketFamiliesRefused(e *env) {
	s := e.common()
	e.refused(s.ID, `
# vsock, alg, packet, bluetooth, tipc, kcm, xdp, can, raw IP
for family, kind in [(40, 1), (38, 5), (17, 3), (31, 3), (30, 1), (41, 2), (44, 3), (29, 3), (2, 3)]:
    attempt('socket %d' % family, lambda: socket.socket(family, kind, 0))
# generic, netfilter, audit, xfrm, diagnosis of sockets, rdma, crypto
for protocol in 16, 12, 9, 6, 4, 20, 21:
    attempt('netlink %d' % protocol, lambda: socket.socket(16, 3, protocol))
# sctp, dccp, l2tp, udplite
for kind, protocol in [(1, 132), (6, 33), (6, 0), (2, 115), (2, 136), (5, 0)]:
    attempt('inet %d %d' % (kind, protocol), lambda: socket.socket(2, kind, protocol))
for family in 30, 2, 16:
    attempt('socketpair %d' % family, lambda: socket.socketpair(family, 2, 0))
`, 25)
	// As on a kernel without them, which programs expect.
	e.prints(s.ID, `python3 -ISBc '
import errno, socket
for family, kind, protocol in (40, 1, 0), (17, 3, 0), (2, 6, 0), (2, 1, 132), (16, 3, 9):
    try: socket.socket(family, kind, protocol)
    except OSError as e: print(errno.errorcode[e.errno])
'`, "EAFNOSUPPORT\nEAFNOSUPPORT\nESOCKTNOSUPPORT\nEPROTONOSUPPORT\nEPROTONOSUPPORT\n")
}

// A program must not type for the user of its terminal.
func terminalInjectionRefused(e *env) {
	s := e.common()
	p := e.terminal(s.ID, `python3 -ISBc '
import fcntl, errno
for name, request, arg in [("TIOCSTI", 0x5412, b"x"), ("TIOCLINUX", 0x541c, b"\x02"), ("TIOCSTI, high bits", 0x100005412, b"x")]:
    try:
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        r = libc.syscall(ctypes.c_long({"x86_64": 16}.get(__import__("os").uname().machine, 29)), ctypes.c_long(0), ctypes.c_long(request), ctypes.c_char_p(arg))
        print(name, "works" if r >= 0 else errno.errorcode[ctypes.get_errno()])
    except OSError as e: print(name, errno.errorcode[e.errno])
'`)
	got := e.All(p.Stdout())
	if strings.Count(got, "\n") != 3 || strings.Contains(got, "works") {
		e.Errorf(`All: got %q; want strings.Count(got, %q) == 3 and got does not contain "works"`, got, "\n")
	}
	e.wait(p)
}

func devicesAreHarmless(e *env) {
	s := e.start(nil)
	known := " console core fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero "
	if !e.has(HostKernel) {
		known += "char fuse net " // its own: nothing of the host is behind them
	}
	for _, name := range strings.Fields(e.out(s.ID, "ls -A /dev /dev/pts")) {
		if !strings.Contains(known, " "+name+" ") && !strings.HasSuffix(name, ":") {
			e.Errorf("there is a device %s", name)
		}
	}
	e.prints(s.ID, "head -c 4 /dev/zero | wc -c; head -c 4 /dev/urandom | wc -c; echo x >/dev/null; cat /dev/null", "4\n4\n")
}
