package attack

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// signals are what a program does not survive, or does not go on after.
var signals = []unix.Signal{unix.SIGKILL, unix.SIGSTOP, unix.SIGSEGV, unix.SIGTERM, unix.SIGQUIT, unix.SIGABRT, unix.SIGBUS, unix.SIGHUP, unix.SIGINT, unix.Signal(40)}

// struck is the observation of sending PID 1 each signal in a way. What it is
// sent may take a moment to act.
func struck(send func(sig unix.Signal) error) string {
	last := "refused"
	for _, sig := range signals {
		if err := send(sig); err == nil {
			last = "works " + unix.SignalName(sig)
		} else if v := Judge(said(err)); v != Refused {
			return said(err)
		}
	}
	return last
}

// signalRow is a row about sending signals to PID 1.
func signalRow(id, tries, source string, send func(sig unix.Signal) error) Row {
	return Row{ID: "pid1." + id, Tries: tries, Source: source, In: Alone, Want: all(Refused), Do: func(*World) string { return struck(send) }}
}

// owned has the kernel signal the process that owner makes the owner of a pipe.
func owned(owner func(fd int) error) func(sig unix.Signal) error {
	return func(sig unix.Signal) error {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			panic(err)
		}
		defer unix.Close(fds[0])
		defer unix.Close(fds[1])
		if err := owner(fds[0]); err != nil {
			return err
		}
		_, err = unix.FcntlInt(uintptr(fds[0]), unix.F_SETSIG, int(sig))
		if err == nil {
			_, err = unix.FcntlInt(uintptr(fds[0]), unix.F_SETFL, unix.O_ASYNC|unix.O_NONBLOCK)
		}
		if err == nil {
			_, err = unix.Write(fds[1], []byte("x"))
		}
		return err
	}
}

func ioctlInt(fd int, request uintptr, value int32) error {
	_, err := sys(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(&value)))
	return err
}

// siginfo is what a process may send that is no kernel's: SI_QUEUE.
func siginfo(sig unix.Signal) uintptr {
	clear(buffer[:128])
	buffer[0], buffer[8] = byte(sig), 0xff
	buffer[9], buffer[10], buffer[11] = 0xff, 0xff, 0xff
	return memory()
}

const (
	fSetownEx                     = 15
	siocspgrp, fiosetown          = 0x8902, 0x8901
	ownerTID, ownerPID, ownerPGRP = 0, 1, 2
)

// thread is one of PID 1's that is not its first.
func thread() int32 {
	entries, err := os.ReadDir("/proc/1/task")
	if err != nil || len(entries) < 2 {
		panic("PID 1 has no threads")
	}
	n, _ := strconv.Atoi(entries[len(entries)-1].Name())
	return int32(n)
}

func setownEx(kind, pid int32) func(fd int) error {
	return func(fd int) error {
		owner := [2]int32{kind, pid}
		_, err := sys(unix.SYS_FCNTL, uintptr(fd), fSetownEx, uintptr(unsafe.Pointer(&owner)))
		return err
	}
}

// look is a row about reading what is PID 1's, in /proc/1.
func look(id, tries, path string, flags int) Row {
	try := func() error {
		switch flags {
		case unix.O_DIRECTORY:
			entries, err := os.ReadDir(path)
			if err == nil && len(entries) == 0 {
				return unix.EACCES
			}
			return err
		case unix.O_PATH:
			_, err := os.Readlink(path)
			return err
		}
		fd, err := unix.Open(path, flags, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if flags == unix.O_RDONLY {
			var n int
			if n, err = unix.Read(fd, make([]byte, 10)); err == nil && n == 0 {
				return unix.EACCES // shown as empty
			}
		}
		return err
	}
	return Row{ID: "pid1." + id, Tries: tries, Source: tried, Want: all(Refused), Do: func(*World) string { return closed(said(try())) }}
}

func pid1Rows() []Row {
	r := all(Refused)
	held := func(id, tries string, nr uintptr, args ...uintptr) Row {
		return Row{ID: "pid1." + id, Tries: tries, Source: tried, Want: r, Do: func(*World) string {
			_, err := sys(nr, args...)
			return said(err)
		}}
	}
	eight := []uint64{1024, 1024}
	rows := []Row{
		signalRow("kill", "signal it with kill", tried, func(s unix.Signal) error { return unix.Kill(1, s) }),
		signalRow("tkill", "signal it with tkill", tried, func(s unix.Signal) error { _, err := sys(unix.SYS_TKILL, 1, uintptr(s)); return err }),
		signalRow("tgkill", "signal it with tgkill", tried, func(s unix.Signal) error { _, err := sys(unix.SYS_TGKILL, 1, 1, uintptr(s)); return err }),
		signalRow("thread", "signal one of its threads", tried, func(s unix.Signal) error {
			_, err := sys(unix.SYS_TGKILL, 1, uintptr(thread()), uintptr(s))
			return err
		}),
		signalRow("sigqueue", "signal it with rt_sigqueueinfo", tried, func(s unix.Signal) error {
			_, err := sys(unix.SYS_RT_SIGQUEUEINFO, 1, uintptr(s), siginfo(s))
			return err
		}),
		signalRow("tgsigqueue", "signal it with rt_tgsigqueueinfo", tried, func(s unix.Signal) error {
			_, err := sys(unix.SYS_RT_TGSIGQUEUEINFO, 1, 1, uintptr(s), siginfo(s))
			return err
		}),
		held("pidfd", "open a descriptor of it", unix.SYS_PIDFD_OPEN, 1, 0),
		signalRow("procfd", "signal it with pidfd_send_signal by a descriptor of /proc/1", "pidfd_send_signal(2)", func(s unix.Signal) error {
			fd, err := unix.Open("/proc/1", unix.O_DIRECTORY|unix.O_RDONLY, 0)
			if err != nil {
				panic(err)
			}
			defer unix.Close(fd)
			return unix.PidfdSendSignal(fd, s, nil, 0)
		}),
		signalRow("procfd-queue", "the same as if a fault of its own were the cause", "pidfd_send_signal(2)", func(s unix.Signal) error {
			fd, err := unix.Open("/proc/1", unix.O_DIRECTORY|unix.O_RDONLY, 0)
			if err != nil {
				panic(err)
			}
			defer unix.Close(fd)
			_, err = sys(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(fd), uintptr(s), siginfo(s), 0)
			return err
		}),
		signalRow("setown", "have a socket signal it (F_SETOWN)", "review M5", owned(func(fd int) error {
			_, err := unix.FcntlInt(uintptr(fd), unix.F_SETOWN, 1)
			return err
		})),
		signalRow("setown-group", "have a socket signal its group (F_SETOWN)", "review M5", owned(func(fd int) error {
			_, err := unix.FcntlInt(uintptr(fd), unix.F_SETOWN, -1)
			return err
		})),
		signalRow("setown-ex", "have a socket signal it (F_SETOWN_EX)", "review M5", owned(setownEx(ownerPID, 1))),
		signalRow("setown-thread", "have a socket signal one of its threads (F_SETOWN_EX)", "review M5", owned(func(fd int) error { return setownEx(ownerTID, thread())(fd) })),
		signalRow("fiosetown", "have a socket signal it (FIOSETOWN)", "review M5", owned(func(fd int) error { return ioctlInt(fd, fiosetown, 1) })),
		signalRow("siocspgrp", "have a socket signal it (SIOCSPGRP)", "review M5", owned(func(fd int) error { return ioctlInt(fd, siocspgrp, 1) })),
		signalRow("group", "signal the group that it is in", tried, func(s unix.Signal) error {
			pgid, err := unix.Getpgid(1)
			if err != nil || pgid <= 1 {
				return unix.EPERM // kill(-1) means everybody
			}
			return unix.Kill(-pgid, s)
		}),
		{ID: "pid1.everybody", Tries: "kill -9 -1", Source: tried, In: Alone, Want: all(Own).because("It ends the sandbox's other processes, and not PID 1."), Do: func(*World) string {
			other, err := start("wait")
			if err != nil {
				return said(err)
			}
			if err := unix.Kill(-1, unix.SIGKILL); err != nil {
				return said(err)
			}
			_ = other.Wait()
			return "own"
		}},
		{ID: "pid1.numbers", Tries: "signal the processes 1 to 64 one after the other", Source: tried, In: Alone, Want: r, Do: func(*World) string {
			for pid := 1; pid <= 64; pid++ {
				for _, s := range signals {
					// A thread that PID 1's runtime has started late has a number that the guard
					// does not know. The kernel keeps PID 1 alive then: if not, no answer comes.
					if of := process(pid); of != os.Getpid() && unix.Kill(pid, s) == nil && of != 1 && process(pid) != 1 {
						return "works " + itoa(pid) + " of " + itoa(of)
					}
				}
			}
			return "refused"
		}},
		held("ptrace", "trace it (PTRACE_ATTACH)", unix.SYS_PTRACE, unix.PTRACE_ATTACH, 1, 0, 0),
		held("seize", "trace it (PTRACE_SEIZE)", unix.SYS_PTRACE, unix.PTRACE_SEIZE, 1, 0, 0),
		{ID: "pid1.prlimit", Tries: "limit its descriptors", Source: tried, Want: r, Do: does(func(*World) error {
			return unix.Prlimit(1, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 3}, nil)
		})},
		held("affinity", "bind it to a processor", unix.SYS_SCHED_SETAFFINITY, 1, 16, uintptr(unsafe.Pointer(&eight[0]))),
		{ID: "pid1.scheduler", Tries: "have it run only when nothing else does (SCHED_IDLE)", Source: tried, Want: r, Do: func(*World) string {
			var param int32
			_, err := sys(unix.SYS_SCHED_SETSCHEDULER, 1, unix.SCHED_IDLE, uintptr(unsafe.Pointer(&param)))
			return said(err)
		}},
		{ID: "pid1.schedattr", Tries: "the same by sched_setattr", Source: tried, Want: r, Do: does(func(*World) error {
			return unix.SchedSetAttr(1, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0)
		})},
		{ID: "pid1.schedparam", Tries: "the same by sched_setparam", Source: tried, Want: r, Do: func(*World) string {
			var param int32
			_, err := sys(unix.SYS_SCHED_SETPARAM, 1, uintptr(unsafe.Pointer(&param)))
			return said(err)
		}},
		held("nice", "lower its priority", unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 1, 19),
		held("nice-group", "lower its group's priority", unix.SYS_SETPRIORITY, unix.PRIO_PGRP, 1, 19),
		held("nice-user", "lower the priority of all of the user", unix.SYS_SETPRIORITY, unix.PRIO_USER, 0, 19),
		held("ioprio", "lower its priority for disks", unix.SYS_IOPRIO_SET, 1, 1, 3<<13),
		held("ioprio-user", "lower that of all of the user", unix.SYS_IOPRIO_SET, 3, 0, 3<<13),
		{ID: "pid1.core-cookie", Tries: "give it a core scheduling cookie", Source: tried, Want: r, Do: func(*World) string {
			_, err := sys(unix.SYS_PRCTL, unix.PR_SCHED_CORE, unix.PR_SCHED_CORE_SHARE_TO, 1, 0, 0)
			if errors.Is(err, unix.EINVAL) { // a kernel without
				return "refused EINVAL"
			}
			return closed(said(err))
		}},
		look("mem", "read its memory", "/proc/1/mem", unix.O_RDONLY),
		look("mem-write", "write its memory", "/proc/1/mem", unix.O_RDWR),
		look("environ", "read its environment", "/proc/1/environ", unix.O_RDONLY),
		look("maps", "read where its memory is", "/proc/1/maps", unix.O_RDONLY),
		look("auxv", "read its auxiliary vector", "/proc/1/auxv", unix.O_RDONLY),
		look("stack", "read its kernel stack", "/proc/1/stack", unix.O_RDONLY),
		look("syscall", "read which call it is in", "/proc/1/syscall", unix.O_RDONLY),
		look("fds", "list its descriptors", "/proc/1/fd", unix.O_DIRECTORY).
			gvisor(Allowed, "gVisor shows their numbers; none can be opened."),
		look("fd", "open its connection to the host", "/proc/1/fd/1", unix.O_RDWR),
		look("thread-fd", "open it by one of its threads", "/proc/1/task/1/fd/1", unix.O_RDWR),
		look("exe", "read which program it is", "/proc/1/exe", unix.O_PATH),
		look("root", "go to its root directory", "/proc/1/root", unix.O_PATH),
		look("cwd", "go to its working directory", "/proc/1/cwd", unix.O_PATH),
		look("ns", "read which namespaces it is in", "/proc/1/ns/mnt", unix.O_PATH).
			gvisor(Allowed, "gVisor shows the number of a table of its own."),
		look("map_files", "list its mapped files", "/proc/1/map_files", unix.O_DIRECTORY),
	}
	for _, name := range []string{"oom_score_adj", "comm", "coredump_filter", "clear_refs", "timerslack_ns", "autogroup", "setgroups", "loginuid"} {
		rows = append(rows, Row{ID: "pid1.write-" + name, Tries: "write its " + name, Source: tried, Want: r, Do: func(*World) string {
			err := write("/proc/1/"+name, "5")
			if v := Judge(said(err)); v == Hidden || errors.Is(err, unix.EINVAL) {
				return "refused " + said(err)
			}
			return strings.TrimSpace(said(err))
		}})
	}
	return rows
}

// process returns the process that a number is a thread of (Tgid in proc(5)); 0 if there is
// no such thread.
func process(thread int) int {
	status, err := os.ReadFile("/proc/" + itoa(thread) + "/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "\nTgid:\t")
	line, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.Atoi(line)
	return n
}
