package seccomp_test

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/seccomp"
	"wolffia/internal/seccomp/profile"
	"wolffia/internal/seccomp/seccomptest"
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
	insns := seccomptest.Parse(t, raw)
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
		if got := seccomptest.Run(t, insns, tt.arch, tt.nr, tt.args); got != tt.want {
			t.Errorf("%s: %#x, want %#x", tt.name, got, tt.want)
		}
	}
}
