package guest

import (
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"wolffia/internal/sys/seccomp"
	"wolffia/internal/test/seccomptest"
)

// The guard and the sandbox's filter in one say what the stricter of the two does,
// whatever the call.
func TestGuardWithFilter(t *testing.T) {
	raw, err := seccomp.Filter(uint32(unix.Getuid()), uint32(unix.Getgid()))
	if err != nil {
		t.Fatal(err)
	}
	const highest = 12
	allow := []bpf.Instruction{bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}}
	guard, filter := guardFilter(highest, allow), seccomptest.Parse(t, raw)
	rest, err := disassemble(raw)
	if err != nil {
		t.Fatal(err)
	}
	assembled, err := bpf.Assemble(guardFilter(highest, rest))
	if err != nil {
		t.Fatal(err)
	}
	var both []bpf.Instruction
	for _, i := range assembled {
		both = append(both, i.Disassemble())
	}
	numbers := []uint32{9999, x32Bit, x32Bit | unix.SYS_KILL, ^uint32(0)}
	for nr := range uint32(2100) {
		numbers = append(numbers, nr)
	}
	values := []uint64{
		4, 0, 1, 2, 3, highest, highest + 1, 1 << 32, 1<<32 | 1, ^uint64(0), unix.TIOCSTI, unix.AF_VSOCK, unix.CLONE_NEWUSER,
		unix.F_SETOWN, unix.F_SETOWN_EX, unix.F_SETSIG, 0x8901, 0x8902,
	}
	refused := map[string]int{}
	for _, arch := range []uint32{auditArch, unix.AUDIT_ARCH_I386} {
		for _, nr := range numbers {
			for _, a := range values {
				for _, b := range values {
					args := [6]uint64{a, b}
					g, f := seccomptest.Run(t, guard, arch, nr, args), seccomptest.Run(t, filter, arch, nr, args)
					want := f // the guard's EPERM is as strict as any errno, and comes first
					if g != unix.SECCOMP_RET_ALLOW {
						refused["by the guard"]++
						want = g
					} else if f != unix.SECCOMP_RET_ALLOW {
						refused["by the filter"]++
					}
					if got := seccomptest.Run(t, both, arch, nr, args); got != want {
						t.Fatalf("call %d of %#x with %#x: %#x, want %#x (the guard says %#x, the filter %#x)", nr, arch, args, got, want, g, f)
					}
				}
			}
		}
	}
	if refused["by the guard"] == 0 || refused["by the filter"] == 0 {
		t.Errorf("refused: %v", refused)
	}
}

// What keeps others from PID 1 lets them do all to themselves.
func TestGuard(t *testing.T) {
	const highest = 12
	guard := guardFilter(highest, []bpf.Instruction{bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}})
	const me, other, minusOne = 0, highest + 1, 1<<32 - 1 // an int: the high half does not count
	for _, tt := range []struct {
		name string
		nr   uint32
		args [6]uint64
		ok   bool
	}{
		{"kill PID 1", unix.SYS_KILL, [6]uint64{1, 9}, false},
		{"kill PID 1, high half", unix.SYS_KILL, [6]uint64{1<<32 | 1, 9}, false},
		{"kill its last thread", unix.SYS_KILL, [6]uint64{highest, 9}, false},
		{"kill another", unix.SYS_KILL, [6]uint64{other, 9}, true},
		{"kill the own group", unix.SYS_KILL, [6]uint64{me, 9}, true},
		{"kill everybody", unix.SYS_KILL, [6]uint64{minusOne, 9}, true},
		{"tgkill, group of PID 1", unix.SYS_TGKILL, [6]uint64{1, other, 9}, false},
		{"tgkill, thread of PID 1", unix.SYS_TGKILL, [6]uint64{other, 2, 9}, false},
		{"tgkill another", unix.SYS_TGKILL, [6]uint64{other, other, 9}, true},
		{"pidfd_open PID 1", unix.SYS_PIDFD_OPEN, [6]uint64{1}, false},
		{"prlimit PID 1", unix.SYS_PRLIMIT64, [6]uint64{1}, false},
		{"prlimit", unix.SYS_PRLIMIT64, [6]uint64{me}, true},
		{"setpriority of PID 1", unix.SYS_SETPRIORITY, [6]uint64{unix.PRIO_PROCESS, 1}, false},
		{"setpriority of the user", unix.SYS_SETPRIORITY, [6]uint64{unix.PRIO_USER, me}, false},
		{"setpriority", unix.SYS_SETPRIORITY, [6]uint64{unix.PRIO_PROCESS, me}, true},
		{"setpriority of another", unix.SYS_SETPRIORITY, [6]uint64{unix.PRIO_PROCESS, other}, true},
		{"ioprio_set of the user", unix.SYS_IOPRIO_SET, [6]uint64{3, me}, false},
		{"ioprio_set", unix.SYS_IOPRIO_SET, [6]uint64{1, me}, true},
		{"own PID 1", unix.SYS_FCNTL, [6]uint64{3, unix.F_SETOWN, 1}, false},
		{"own PID 1, high halves", unix.SYS_FCNTL, [6]uint64{3, 1<<32 | unix.F_SETOWN, 1<<32 | 1}, false},
		{"own its last thread", unix.SYS_FCNTL, [6]uint64{3, unix.F_SETOWN, highest}, false},
		{"own the group of PID 1", unix.SYS_FCNTL, [6]uint64{3, unix.F_SETOWN, minusOne}, false},
		{"own the group of PID 1, 64 bits", unix.SYS_FCNTL, [6]uint64{3, unix.F_SETOWN, ^uint64(0)}, false},
		{"own a group of its threads", unix.SYS_FCNTL, [6]uint64{3, unix.F_SETOWN, 1<<32 - highest}, false},
		{"own nobody", unix.SYS_FCNTL, [6]uint64{3, unix.F_SETOWN, 0}, true},
		{"own another", unix.SYS_FCNTL, [6]uint64{3, unix.F_SETOWN, other}, true},
		{"own another group", unix.SYS_FCNTL, [6]uint64{3, unix.F_SETOWN, 1<<32 - other}, true},
		{"own by a pointer", unix.SYS_FCNTL, [6]uint64{3, 1<<32 | unix.F_SETOWN_EX, 1 << 40}, false},
		{"another signal than SIGIO", unix.SYS_FCNTL, [6]uint64{3, 1<<32 | unix.F_SETSIG, 9}, false},
		{"another command", unix.SYS_FCNTL, [6]uint64{3, unix.F_GETOWN, 1}, true},
		{"a lock", unix.SYS_FCNTL, [6]uint64{3, unix.F_SETLK, 1}, true},
		{"own by FIOSETOWN", unix.SYS_IOCTL, [6]uint64{3, 1<<32 | 0x8901, 1 << 40}, false},
		{"own by SIOCSPGRP", unix.SYS_IOCTL, [6]uint64{3, 0x8902, 1 << 40}, false},
		{"another ioctl", unix.SYS_IOCTL, [6]uint64{3, unix.TIOCINQ, 1}, true},
		{"read", unix.SYS_READ, [6]uint64{1, 1}, true},
		{"one that is not known", 9999, [6]uint64{1, 1}, true},
		{"x32", x32Bit | unix.SYS_READ, [6]uint64{1, 1}, false},
	} {
		want := uint32(unix.SECCOMP_RET_ALLOW)
		if !tt.ok {
			want = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		}
		if got := seccomptest.Run(t, guard, auditArch, tt.nr, tt.args); got != want {
			t.Errorf("%s: %#x, want %#x", tt.name, got, want)
		}
	}
	// Programs work without the call.
	if got := seccomptest.Run(t, guard, auditArch, unix.SYS_PIDFD_SEND_SIGNAL, [6]uint64{3, 0}); got != unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS) {
		t.Errorf("pidfd_send_signal: %#x, want ENOSYS", got)
	}
}

func TestNoFilter(t *testing.T) {
	for _, wrong := range []int{1, 7, 9} {
		if prog, err := disassemble(make([]byte, wrong)); err == nil {
			t.Errorf("%d bytes: %v", wrong, prog)
		}
	}
}
