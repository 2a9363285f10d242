package seccomp_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"wolffia/internal/seccomp"
	"wolffia/internal/seccomp/profile"
)

func TestFilterIsGenerated(t *testing.T) {
	got, err := seccomp.Filter()
	if err != nil {
		t.Fatal(err)
	}
	want, err := profile.Filter()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("the filter is not what the profile says: go generate ./internal/seccomp")
	}
}

// TestVerdicts runs the filter as the kernel would.
func TestVerdicts(t *testing.T) {
	raw, err := seccomp.Filter()
	if err != nil {
		t.Fatal(err)
	}
	var insns []bpf.Instruction
	for r := bytes.NewReader(raw); r.Len() > 0; {
		var i bpf.RawInstruction
		if err := binary.Read(r, binary.LittleEndian, &i); err != nil {
			t.Fatal(err)
		}
		insns = append(insns, i.Disassemble())
	}
	const (
		allow = unix.SECCOMP_RET_ALLOW
		eperm = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		nosys = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	)
	for _, tt := range []struct {
		name string
		arch uint32
		nr   uint32
		args [6]uint64
		want uint32
	}{
		{"read", auditArch, unix.SYS_READ, [6]uint64{}, allow},
		{"openat2", auditArch, unix.SYS_OPENAT2, [6]uint64{}, allow},
		{"ptrace", auditArch, unix.SYS_PTRACE, [6]uint64{}, allow},
		{"ioctl TCGETS", auditArch, unix.SYS_IOCTL, [6]uint64{0, unix.TCGETS}, allow},
		{"ioctl TIOCSTI", auditArch, unix.SYS_IOCTL, [6]uint64{0, unix.TIOCSTI}, eperm},
		{"ioctl TIOCSTI, high bits", auditArch, unix.SYS_IOCTL, [6]uint64{0, 1<<32 | unix.TIOCSTI}, eperm},
		{"ioctl TIOCLINUX", auditArch, unix.SYS_IOCTL, [6]uint64{0, unix.TIOCLINUX}, eperm},
		{"ioctl TIOCSTI+1", auditArch, unix.SYS_IOCTL, [6]uint64{0, unix.TIOCSTI + 1}, allow},
		{"socket unix", auditArch, unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX}, allow},
		{"socket netlink", auditArch, unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK}, allow},
		{"socket vsock", auditArch, unix.SYS_SOCKET, [6]uint64{unix.AF_VSOCK}, eperm},
		{"socket vsock, high bits", auditArch, unix.SYS_SOCKET, [6]uint64{1<<32 | unix.AF_VSOCK}, eperm},
		{"socket alg", auditArch, unix.SYS_SOCKET, [6]uint64{unix.AF_ALG}, eperm},
		{"io_uring_setup", auditArch, unix.SYS_IO_URING_SETUP, [6]uint64{}, eperm},
		{"keyctl", auditArch, unix.SYS_KEYCTL, [6]uint64{}, eperm},
		{"userfaultfd", auditArch, unix.SYS_USERFAULTFD, [6]uint64{}, eperm},
		{"bpf", auditArch, unix.SYS_BPF, [6]uint64{}, eperm},
		{"mount", auditArch, unix.SYS_MOUNT, [6]uint64{}, eperm},
		{"unshare", auditArch, unix.SYS_UNSHARE, [6]uint64{}, eperm},
		{"setns", auditArch, unix.SYS_SETNS, [6]uint64{}, eperm},
		{"clone thread", auditArch, unix.SYS_CLONE, [6]uint64{unix.CLONE_VM | unix.CLONE_THREAD}, allow},
		{"clone user namespace", auditArch, unix.SYS_CLONE, [6]uint64{unix.CLONE_NEWUSER}, eperm},
		{"clone3", auditArch, unix.SYS_CLONE3, [6]uint64{}, nosys},
		{"unknown", auditArch, 9999, [6]uint64{}, eperm},
		{"foreign architecture", unix.AUDIT_ARCH_I386, 3, [6]uint64{}, eperm},
	} {
		if got := run(t, insns, tt.arch, tt.nr, tt.args); got != tt.want {
			t.Errorf("%s: %#x, want %#x", tt.name, got, tt.want)
		}
	}
}

// run evaluates a seccomp program. The bpf package's own machine reads packets,
// in network byte order; struct seccomp_data is in the host's.
func run(t *testing.T, prog []bpf.Instruction, arch, nr uint32, args [6]uint64) uint32 {
	t.Helper()
	data := []uint32{nr, arch, 0, 0}
	for _, a := range args {
		data = append(data, uint32(a), uint32(a>>32))
	}
	var packet []byte
	for _, d := range data {
		packet = binary.BigEndian.AppendUint32(packet, d)
	}
	// The machine of the bpf package returns how much of a packet to keep;
	// a verdict is larger than any packet. So this one stands in for it.
	var a uint32
	for pc := 0; pc < len(prog); pc++ {
		switch i := prog[pc].(type) {
		case bpf.LoadAbsolute:
			a = binary.BigEndian.Uint32(packet[i.Off:])
		case bpf.Jump:
			pc += int(i.Skip)
		case bpf.JumpIf:
			var holds bool
			switch i.Cond {
			case bpf.JumpEqual:
				holds = a == i.Val
			case bpf.JumpNotEqual:
				holds = a != i.Val
			case bpf.JumpGreaterThan:
				holds = a > i.Val
			case bpf.JumpLessThan:
				holds = a < i.Val
			case bpf.JumpGreaterOrEqual:
				holds = a >= i.Val
			case bpf.JumpLessOrEqual:
				holds = a <= i.Val
			case bpf.JumpBitsSet:
				holds = a&i.Val != 0
			case bpf.JumpBitsNotSet:
				holds = a&i.Val == 0
			}
			if holds {
				pc += int(i.SkipTrue)
			} else {
				pc += int(i.SkipFalse)
			}
		case bpf.RetConstant:
			return i.Val
		default:
			t.Fatalf("instruction %v is not known to this test", i)
		}
	}
	t.Fatal("the program does not return")
	return 0
}
