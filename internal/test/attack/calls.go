package attack

import (
	"errors"
	"runtime/debug"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

func itoa(n int) string { return strconv.Itoa(n) }

// buffer is memory for calls that want some.
var buffer [4096]byte

func memory() uintptr { return uintptr(unsafe.Pointer(&buffer[0])) }

var pathTmp = []byte("/tmp\x00")

func path() uintptr { return uintptr(unsafe.Pointer(&pathTmp[0])) }

const none = ^uintptr(0) // -1, no descriptor

// answer is the observation of a system call that is not to be offered: what a
// kernel says that has looked at the arguments is not a refusal.
func answer(_ uintptr, err error) string {
	switch {
	case err == nil, errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EACCES):
		return said(err)
	}
	return "reached " + said(err)
}

// call is a row about one system call.
func call(name, tries, source string, nr uintptr, args ...uintptr) Row {
	return Row{ID: "call." + name, Tries: tries, Source: source, Want: all(Refused), Do: func(*World) string {
		return answer(sys(nr, args...))
	}}
}

// child makes a process by clone(2); the child ends at once.
func child(flags uintptr) (uintptr, error) {
	r, _, errno := unix.RawSyscall6(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return r, errno
	}
	if r == 0 {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	return r, nil
}

// x32 marks calls of the x32 ABI.
const x32 = 0x40000000

const (
	b2        = "Docker's profile"
	namespace = "user namespaces are attack surface"
	mounting  = "CVE-2022-0185"
)

// mapped0 becomes 0, which a user namespace may not have (EINVAL).
func mapped0(nr uintptr) string {
	if _, err := sys(nr, 0); !errors.Is(err, unix.EINVAL) {
		return said(err)
	}
	return "refused EINVAL"
}

// vector is a struct iovec of a mapped page.
func vector() uintptr {
	v := unix.Iovec{Base: &buffer[0], Len: 16}
	copy(buffer[64:80], (*[16]byte)(unsafe.Pointer(&v))[:])
	return uintptr(unsafe.Pointer(&buffer[64]))
}

func callRows() []Row {
	rows := []Row{
		call("unshare-user", "make a user namespace", namespace, unix.SYS_UNSHARE, unix.CLONE_NEWUSER),
		call("unshare-mnt", "make a mount namespace", namespace, unix.SYS_UNSHARE, unix.CLONE_NEWNS),
		call("unshare-pid", "make a process namespace", namespace, unix.SYS_UNSHARE, unix.CLONE_NEWPID),
		call("unshare-net", "make a network namespace", namespace, unix.SYS_UNSHARE, unix.CLONE_NEWNET),
		call("unshare-ipc", "make an IPC namespace", namespace, unix.SYS_UNSHARE, unix.CLONE_NEWIPC),
		call("unshare-uts", "make a UTS namespace", namespace, unix.SYS_UNSHARE, unix.CLONE_NEWUTS),
		call("unshare-cgroup", "make a cgroup namespace", "CVE-2022-0492", unix.SYS_UNSHARE, unix.CLONE_NEWCGROUP),
		call("unshare-time", "make a time namespace", namespace, unix.SYS_UNSHARE, unix.CLONE_NEWTIME),
		{ID: "call.clone", Tries: "clone a process into namespaces of its own", Source: namespace, Want: all(Refused), Do: func(*World) string {
			for _, flags := range []uintptr{unix.CLONE_NEWUSER, unix.CLONE_NEWNS, unix.CLONE_NEWNET, unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWNS} {
				if a := answer(child(flags)); Judge(a) != Refused {
					return a
				}
			}
			return "refused"
		}},
		call("clone3", "clone a process by clone3, whose flags no filter can see", "moby: ENOSYS", unix.SYS_CLONE3, memory(), 88),
		{ID: "call.setns", Tries: "enter a namespace by its descriptor", Source: b2, Want: all(Refused), Do: func(*World) string {
			fd, err := unix.Open("/proc/self/ns/net", unix.O_RDONLY, 0)
			if err != nil {
				return said(err)
			}
			return answer(sys(unix.SYS_SETNS, uintptr(fd), 0))
		}},
		call("mount", "mount a file system", mounting, unix.SYS_MOUNT, path(), path(), 0, unix.MS_BIND, 0),
		call("remount", "remount /usr writable", mounting, unix.SYS_MOUNT, 0, path(), 0, unix.MS_REMOUNT|unix.MS_BIND, 0),
		call("umount", "unmount what covers something", "CVE-2025-31133", unix.SYS_UMOUNT2, path(), unix.MNT_DETACH),
		call("pivot_root", "change the root", b2, unix.SYS_PIVOT_ROOT, path(), path()),
		call("chroot", "change the root of this process", b2, unix.SYS_CHROOT, path()),
		call("fsopen", "make a file system context", "CVE-2022-0185", unix.SYS_FSOPEN, path(), 0),
		call("fsconfig", "configure it", "CVE-2022-0185", unix.SYS_FSCONFIG, none, 0, 0, 0, 0),
		call("fsmount", "mount it", mounting, unix.SYS_FSMOUNT, none, 0, 0),
		call("fspick", "pick a mounted file system to reconfigure", mounting, unix.SYS_FSPICK, none, path(), 0),
		call("open_tree", "clone a mount", mounting, unix.SYS_OPEN_TREE, none, path(), 1),
		call("move_mount", "move a mount", mounting, unix.SYS_MOVE_MOUNT, none, path(), none, path(), 0),
		call("mount_setattr", "change the attributes of a mount", mounting, unix.SYS_MOUNT_SETATTR, none, path(), 0, memory(), 32),
		call("bpf", "load a BPF program", "CVE-2021-3490", unix.SYS_BPF, 5, memory(), 128),
		call("perf_event_open", "open a performance counter", "CVE-2023-6931", unix.SYS_PERF_EVENT_OPEN, memory(), 0, none, none, 0),
		call("io_uring_setup", "set up an io_uring, whose requests no filter sees", "moby PR 46762", unix.SYS_IO_URING_SETUP, 1, memory()),
		call("io_uring_enter", "enter one", "moby PR 46762", unix.SYS_IO_URING_ENTER, none, 0, 0, 0, 0),
		call("io_uring_register", "register with one", "moby PR 46762", unix.SYS_IO_URING_REGISTER, none, 0, 0, 0),
		call("userfaultfd", "stop the kernel at a page fault", "many exploits' helper", unix.SYS_USERFAULTFD, 1),
		call("add_key", "add a key to the kernel's rings", "CVE-2016-0728; keys are not in a namespace", unix.SYS_ADD_KEY, path(), path(), path(), 1, ^uintptr(2)),
		call("keyctl", "read the user's keys", "keys are not in a namespace", unix.SYS_KEYCTL, 0, ^uintptr(3), 0),
		call("request_key", "ask for a key", "keys are not in a namespace", unix.SYS_REQUEST_KEY, path(), path(), 0, ^uintptr(2)),
		call("open_by_handle_at", "open a file by its handle (shocker)", "shocker.c", unix.SYS_OPEN_BY_HANDLE_AT, none, memory(), 0),
		call("fanotify_init", "be told of every access", b2, unix.SYS_FANOTIFY_INIT, 0, 0),
		call("kexec_load", "load another kernel", b2, unix.SYS_KEXEC_LOAD, 0, 0, 0, 0),
		call("kexec_file_load", "load another kernel from a file", b2, unix.SYS_KEXEC_FILE_LOAD, none, none, 0, 0, 0),
		call("init_module", "load a kernel module", b2, unix.SYS_INIT_MODULE, memory(), 0, path()),
		call("finit_module", "load a kernel module from a file", b2, unix.SYS_FINIT_MODULE, none, path(), 0),
		call("delete_module", "unload a kernel module", b2, unix.SYS_DELETE_MODULE, path(), unix.O_NONBLOCK),
		call("create_module", "make a kernel module, as Linux 2.4 did", b2, sysCreateModule, path(), 1),
		call("get_kernel_syms", "read the kernel's symbols", b2, sysGetKernelSyms, memory()),
		call("query_module", "ask for kernel modules", b2, sysQueryModule, path(), 0, memory(), 1, memory()),
		call("swapon", "swap to a file", b2, unix.SYS_SWAPON, path(), 0),
		call("swapoff", "stop swapping", b2, unix.SYS_SWAPOFF, path()),
		call("acct", "have all processes accounted in a file", b2, unix.SYS_ACCT, 0),
		call("reboot", "restart the machine", b2, unix.SYS_REBOOT, 0, 0, 0, 0),
		call("sethostname", "set the host's name", b2, unix.SYS_SETHOSTNAME, path(), 4),
		call("setdomainname", "set the domain's name", b2, unix.SYS_SETDOMAINNAME, path(), 4),
		call("settimeofday", "set the clock", b2, unix.SYS_SETTIMEOFDAY, memory(), 0),
		call("clock_settime", "set a clock", b2, unix.SYS_CLOCK_SETTIME, unix.CLOCK_REALTIME, memory()),
		{ID: "call.clock_adjtime", Tries: "make a clock run fast", Source: b2, Want: all(Refused), Do: func(*World) string {
			t := unix.Timex{Modes: unix.ADJ_FREQUENCY}
			return answer(sys(unix.SYS_CLOCK_ADJTIME, unix.CLOCK_REALTIME, uintptr(unsafe.Pointer(&t))))
		}},
		call("iopl", "be allowed all I/O ports", b2, sysIopl, 3),
		call("ioperm", "be allowed one I/O port", b2, sysIoperm, 0x80, 1, 1),
		call("quotactl", "change quotas", b2, unix.SYS_QUOTACTL, 0, 0, 0, 0),
		call("quotactl_fd", "change quotas by a descriptor", b2, unix.SYS_QUOTACTL_FD, none, 0, 0, 0),
		call("syslog", "read the kernel's messages", b2, unix.SYS_SYSLOG, 3, memory(), 4096),
		call("personality-exec", "make all that is read executable", "moby: other values are allowed", unix.SYS_PERSONALITY, 0x400000),
		call("kcmp", "compare this process's kernel objects with PID 1's", b2, unix.SYS_KCMP, uintptr(unix.Getpid()), 1, 1, 0, 0),
		call("move_pages", "move PID 1's pages", "flatpak", unix.SYS_MOVE_PAGES, 1, 0, 0, 0, 0, 0),
		call("migrate_pages", "move PID 1 to another memory node", "flatpak", unix.SYS_MIGRATE_PAGES, 1, 64, memory(), memory()),
		{ID: "call.process_vm_readv", Tries: "read PID 1's memory", Source: tried, Want: all(Refused), Do: func(*World) string {
			return answer(sys(unix.SYS_PROCESS_VM_READV, 1, vector(), 1, vector(), 1, 0))
		}},
		{ID: "call.process_vm_writev", Tries: "write PID 1's memory", Source: tried, Want: all(Refused), Do: func(*World) string {
			return answer(sys(unix.SYS_PROCESS_VM_WRITEV, 1, vector(), 1, vector(), 1, 0))
		}},
		call("pidfd_getfd", "take a descriptor from another process", b2, unix.SYS_PIDFD_GETFD, none, 0, 0),
		call("lookup_dcookie", "translate a profiler's cookie", b2, sysLookupDcookie, 0, memory(), 4096),
		call("nfsservctl", "control an NFS server, as Linux 2.6 did", b2, sysNFSServctl, 0, 0, 0),
		call("uselib", "map a library at its own address", "CVE-2004-1235", sysUselib, path()),
		call("_sysctl", "read and write sysctls by number", b2, sysSysctl, memory()),
		call("sysfs", "list file systems by number", b2, sysSysfs, 3),
		call("vserver", "call what was never built", b2, sysVserver, 0),
		call("vhangup", "hang up the terminal", b2, unix.SYS_VHANGUP),
		{ID: "call.setuid", Tries: "become user 0", Source: b2, Want: all(Refused), Do: func(*World) string { return mapped0(unix.SYS_SETUID) }},
		{ID: "call.setgid", Tries: "become group 0", Source: b2, Want: all(Refused), Do: func(*World) string { return mapped0(unix.SYS_SETGID) }},
		call("setgroups", "take other groups", "CVE-2014-8989", unix.SYS_SETGROUPS, 0, 0),
		{ID: "call.capset", Tries: "take capabilities", Source: b2, Want: all(Refused), Do: func(*World) string {
			h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			d := [2]unix.CapUserData{{Effective: 1 << unix.CAP_DAC_OVERRIDE, Permitted: 1 << unix.CAP_DAC_OVERRIDE}}
			return said(unix.Capset(&h, &d[0]))
		}},
		{ID: "call.ambient", Tries: "raise an ambient capability", Source: b2, Want: all(Refused), Do: does(func(*World) error {
			return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_NET_ADMIN, 0, 0)
		})},
		{ID: "call.securebits", Tries: "have root's exec keep capabilities (securebits)", Source: b2, Want: all(Refused), Do: does(func(*World) error {
			return unix.Prctl(unix.PR_SET_SECUREBITS, 0, 0, 0, 0)
		})},
		{ID: "call.privileges", Tries: "take no_new_privs back", Source: "prctl(2)", Want: all(Refused), Do: func(*World) string {
			if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0); !errors.Is(err, unix.EINVAL) {
				return said(err)
			}
			return "refused EINVAL"
		}},
		{ID: "call.realtime", Tries: "take a real-time priority", Source: "starves the host", Want: all(Refused), Do: func(*World) string {
			param := int32(50)
			_, err := sys(unix.SYS_SCHED_SETSCHEDULER, 0, unix.SCHED_FIFO, uintptr(unsafe.Pointer(&param)))
			if errors.Is(err, unix.EINVAL) { // a kernel without
				return "refused EINVAL"
			}
			return answer(0, err)
		}},
		call("nice", "take a higher priority", "starves the host", unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, ^uintptr(19)).
			gvisor(Allowed, "gVisor takes the value, and passes nothing on to the host."),
		call("ioprio", "take a real-time priority for disks", "starves the host", unix.SYS_IOPRIO_SET, 1, 0, 1<<13),
		{ID: "call.mlock", Tries: "lock a GiB of memory", Source: "RLIMIT_MEMLOCK", Want: all(Refused), Do: func(*World) string {
			b, err := unix.Mmap(-1, 0, 1<<30, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
			if err != nil {
				return said(err)
			}
			if err := unix.Mlock(b); !errors.Is(err, unix.ENOMEM) {
				return said(err)
			}
			return "refused ENOMEM"
		}},
		call("unknown", "call a number that no kernel has yet", "deny by default", 9999),
		{ID: "call.int80", Tries: "make a call by the 32-bit gate, where numbers mean others", Source: "seccomp(2); CVE-2009-0835", Want: all(Refused), Do: func(*World) (did string) {
			// A kernel without 32-bit calls has no such gate: it sends SIGSEGV.
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
			defer func() {
				if v := recover(); v != nil {
					did = "refused SIGSEGV"
				}
			}()
			r := int80(20) // getpid
			if r < 0 {
				return said(unix.Errno(-r))
			}
			return "works"
		}},
		{ID: "call.x32", Tries: "make a call by its x32 number", Source: "seccomp(2)", Want: all(Refused), Do: func(*World) string {
			return answer(sys(unix.SYS_GETPID | x32))
		}},
		{ID: "call.x32-unshare", Tries: "make a user namespace by the x32 number", Source: "seccomp(2)", Want: all(Refused), Do: func(*World) string {
			return answer(sys(unix.SYS_UNSHARE|x32, unix.CLONE_NEWUSER))
		}},
		{ID: "call.high-bits", Tries: "pass refused flags with high bits set: the kernel looks at the low half only", Source: "CVE-2019-10063", Want: all(Refused), Do: func(*World) string {
			return answer(child(1<<32 | unix.CLONE_NEWUSER))
		}},
	}
	return rows
}
