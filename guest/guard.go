package guest

import (
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Where seccomp_data keeps what (seccomp(2)); arguments are 64 bits wide,
// little endian on every architecture that is supported. Process numbers are ints:
// the kernel looks at the low half only, and so does the filter.
const (
	offNr   = 0
	offArch = 4
	offArg0 = 16
	offArg1 = 24
	offArg2 = 32
)

// guardedCalls are the calls that could end, stop or cripple PID 1. A group
// or a user that PID 1 belongs to counts as PID 1 (see byWhich). pid is the offset of the
// argument that holds a process or thread.
var guardedCalls = []struct{ nr, pid uint32 }{
	{unix.SYS_KILL, offArg0},
	{unix.SYS_TKILL, offArg0},
	{unix.SYS_TGKILL, offArg0},
	{unix.SYS_TGKILL, offArg1},
	{unix.SYS_RT_SIGQUEUEINFO, offArg0},
	{unix.SYS_RT_TGSIGQUEUEINFO, offArg0},
	{unix.SYS_RT_TGSIGQUEUEINFO, offArg1},
	{unix.SYS_PIDFD_OPEN, offArg0},
	{unix.SYS_PRLIMIT64, offArg0},
	{unix.SYS_SCHED_SETAFFINITY, offArg0},
	{unix.SYS_SCHED_SETSCHEDULER, offArg0},
	{unix.SYS_SCHED_SETPARAM, offArg0},
	{unix.SYS_SCHED_SETATTR, offArg0},
}

// byWhich are refused for PID 1, for a group with its number, and for a
// whole user, because PID 1 is one of the user's processes (setpriority(2),
// ioprio_set(2)). user is the value of their first argument, "which", that means all
// processes of a user.
var byWhich = []struct{ nr, user uint32 }{
	{unix.SYS_SETPRIORITY, unix.PRIO_USER},
	{unix.SYS_IOPRIO_SET, 3}, // IOPRIO_WHO_USER
}

// byCommand are refused with these values of their second argument, for any process. They name a
// process, thread or group for the kernel to signal, behind a pointer that a filter cannot follow,
// or choose the signal (F_SETSIG in fcntl(2)), which for a fault of PID 1's own could be SIGSEGV.
// Programs want SIGIO for themselves, which F_SETOWN and FIOASYNC do. (Samba asks for another
// signal, and continues without it.)
var byCommand = []struct{ nr, command uint32 }{
	{unix.SYS_FCNTL, unix.F_SETOWN_EX},
	{unix.SYS_FCNTL, unix.F_SETSIG},
	{unix.SYS_IOCTL, fioSetOwn},
	{unix.SYS_IOCTL, siocSPGrp},
}

// FIOSETOWN and SIOCSPGRP (asm-generic/sockios.h), which are F_SETOWN for sockets.
const (
	fioSetOwn = 0x8901
	siocSPGrp = 0x8902
)

// guardFilter is the seccomp filter that keeps processes from signalling, limiting and
// reprioritising PID 1 and its threads, numbered 1 to highest. It returns EPERM, also to the Go
// runtime of PID 1, which would preempt goroutines with signals and works without them. A
// directory of /proc is as good as a pidfd for pidfd_send_signal(2), and may be opened. So the
// filter refuses that call with ENOSYS: programs then do as on kernels that lack it. The remaining
// filter decides about all other calls: programs may make them for their own processes. System
// calls of a foreign architecture, which have other numbers, are all refused.
//
// gVisor needs one filter with few instructions on most paths. When a filter is installed, gVisor
// runs it for 2001 call numbers, though about 460 exist (populateCache in
// pkg/sentry/kernel/seccomp.go).
func guardFilter(highest uint32, rest []bpf.Instruction) []bpf.Instruction {
	deny := bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}
	prog := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		deny,
		bpf.LoadAbsolute{Off: offNr, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: x32Bit, SkipTrue: 1},
		deny,
	}
	var calls []bpf.Instruction
	last := uint32(0)
	add := func(nr uint32, body ...bpf.Instruction) { // refuses the call nr, or falls through
		last = max(last, nr)
		calls = append(calls, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: nr, SkipTrue: uint8(len(body) + 1)})
		calls = append(append(calls, body...), bpf.LoadAbsolute{Off: offNr, Size: 4})
	}
	for _, c := range guardedCalls {
		add(c.nr,
			bpf.LoadAbsolute{Off: c.pid, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 2}, // the caller itself, or its group
			bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: highest, SkipTrue: 1},
			deny)
	}
	for _, c := range byWhich {
		add(c.nr,
			bpf.LoadAbsolute{Off: offArg0, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: c.user, SkipTrue: 3},
			bpf.LoadAbsolute{Off: offArg1, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 2},
			bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: highest, SkipTrue: 1},
			deny)
	}
	for _, c := range byCommand {
		add(c.nr,
			bpf.LoadAbsolute{Off: offArg1, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: c.command, SkipTrue: 1},
			deny)
	}
	add(unix.SYS_FCNTL,
		bpf.LoadAbsolute{Off: offArg1, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.F_SETOWN, SkipTrue: 5},
		bpf.LoadAbsolute{Off: offArg2, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 3},                 // no process
		bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: -highest, SkipTrue: 1}, // a group, as a negative int
		bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: highest, SkipTrue: 1},
		deny)
	last = max(last, unix.SYS_PIDFD_SEND_SIGNAL)
	calls = append(calls,
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_PIDFD_SEND_SIGNAL, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
	)
	prog = append(prog, bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: last, SkipTrue: uint8(len(calls))})
	return slices.Concat(prog, calls, rest)
}
