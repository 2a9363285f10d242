package seccomp_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/seccomp"
	"wolffia/internal/test/seccomptest"
)

// TestVerdicts runs the filter as the kernel would.
func TestVerdicts(t *testing.T) {
	raw, err := seccomp.Filter(1000, 100)
	if err != nil {
		t.Fatal(err)
	}
	insns := seccomptest.Parse(t, raw)
	const (
		allow = unix.SECCOMP_RET_ALLOW
		eperm = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		nosys = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
		// What sockets of which the kernel does not have the family, type or protocol fail with.
		family   = unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
		kind     = unix.SECCOMP_RET_ERRNO | uint32(unix.ESOCKTNOSUPPORT)
		protocol = unix.SECCOMP_RET_ERRNO | uint32(unix.EPROTONOSUPPORT)
		ignored  = unix.SECCOMP_RET_ERRNO // 0: the call does nothing, and succeeds
		high     = 1 << 32
		ptr      = 1 << 46 // a pointer whose low half is 0
	)
	allowed := map[uint32]bool{unix.AF_UNIX: true, unix.AF_INET: true, unix.AF_INET6: true, unix.AF_NETLINK: true}
	for f := range uint32(256) {
		want := uint32(allow)
		if !allowed[f] {
			want = family
		}
		if got := seccomptest.Run(t, insns, auditArch, unix.SYS_SOCKET, [6]uint64{uint64(f)}); got != want {
			t.Errorf("socket family %d: %#x, want %#x", f, got, want)
		}
	}
	for _, tt := range []struct {
		name string
		arch uint32
		nr   uint32
		args [6]uint64
		want uint32
	}{
		{"read", auditArch, unix.SYS_READ, [6]uint64{}, allow},
		{"stat", auditArch, unix.SYS_NEWFSTATAT, [6]uint64{}, allow},
		{"openat2", auditArch, unix.SYS_OPENAT2, [6]uint64{}, allow},
		{"ptrace", auditArch, unix.SYS_PTRACE, [6]uint64{}, allow},
		{"ioctl TCGETS", auditArch, unix.SYS_IOCTL, [6]uint64{0, unix.TCGETS}, allow},
		{"ioctl TIOCSTI", auditArch, unix.SYS_IOCTL, [6]uint64{0, unix.TIOCSTI}, eperm},
		{"ioctl TIOCSTI, high bits", auditArch, unix.SYS_IOCTL, [6]uint64{0, 1<<32 | unix.TIOCSTI}, eperm},
		{"ioctl TIOCLINUX", auditArch, unix.SYS_IOCTL, [6]uint64{0, unix.TIOCLINUX}, eperm},
		{"ioctl TIOCSTI+1", auditArch, unix.SYS_IOCTL, [6]uint64{0, unix.TIOCSTI + 1}, allow},
		{"socket unix", auditArch, unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET | unix.SOCK_CLOEXEC}, allow},
		{"socket tcp", auditArch, unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK}, allow},
		{"socket tcp by number", auditArch, unix.SYS_SOCKET, [6]uint64{unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_TCP}, allow},
		{"socket mptcp", auditArch, unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, allow},
		{"socket udp", auditArch, unix.SYS_SOCKET, [6]uint64{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP}, allow},
		{"socket ping", auditArch, unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, allow},
		{"socket ping6", auditArch, unix.SYS_SOCKET, [6]uint64{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_ICMPV6}, allow},
		{"socket sctp", auditArch, unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, protocol},
		{"socket sctp, high bits", auditArch, unix.SYS_SOCKET, [6]uint64{high | unix.AF_INET6, unix.SOCK_STREAM, high | unix.IPPROTO_SCTP}, protocol},
		{"socket seqpacket", auditArch, unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_SEQPACKET}, kind},
		{"socket dccp", auditArch, unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_DCCP | unix.SOCK_CLOEXEC}, kind},
		{"socket of packets by type", auditArch, unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_PACKET}, kind},
		{"socket netlink", auditArch, unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, allow},
		{"socket netlink of devices", auditArch, unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT}, allow},
		{"socket netfilter", auditArch, unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, protocol},
		{"socket netfilter, high bits", auditArch, unix.SYS_SOCKET, [6]uint64{high | unix.AF_NETLINK, unix.SOCK_RAW, high | unix.NETLINK_NETFILTER}, protocol},
		{"socket audit", auditArch, unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, protocol},
		{"socket generic netlink", auditArch, unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC}, protocol},
		{"socket vsock", auditArch, unix.SYS_SOCKET, [6]uint64{unix.AF_VSOCK}, family},
		{"socket vsock, high bits", auditArch, unix.SYS_SOCKET, [6]uint64{high | unix.AF_VSOCK}, family},
		{"socket alg", auditArch, unix.SYS_SOCKET, [6]uint64{unix.AF_ALG}, family},
		{"socket of no family", auditArch, unix.SYS_SOCKET, [6]uint64{unix.AF_UNSPEC}, family},
		{"socket of a later family", auditArch, unix.SYS_SOCKET, [6]uint64{unix.AF_MAX}, family},
		{"socketpair unix", auditArch, unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, allow},
		{"socketpair tipc", auditArch, unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_TIPC, unix.SOCK_DGRAM}, family},
		{"socketpair tipc, high bits", auditArch, unix.SYS_SOCKETPAIR, [6]uint64{high | unix.AF_TIPC, unix.SOCK_DGRAM}, family},
		{"setrlimit of core dumps", auditArch, unix.SYS_SETRLIMIT, [6]uint64{unix.RLIMIT_CORE, ptr}, ignored},
		{"setrlimit of core dumps, high bits", auditArch, unix.SYS_SETRLIMIT, [6]uint64{high | unix.RLIMIT_CORE, ptr}, ignored},
		{"setrlimit of files", auditArch, unix.SYS_SETRLIMIT, [6]uint64{unix.RLIMIT_NOFILE, ptr}, allow},
		{"prlimit of core dumps", auditArch, unix.SYS_PRLIMIT64, [6]uint64{0, unix.RLIMIT_CORE, ptr}, ignored},
		{"prlimit of core dumps, low pointer", auditArch, unix.SYS_PRLIMIT64, [6]uint64{0, unix.RLIMIT_CORE, 4096}, ignored},
		{"prlimit of core dumps, high bits", auditArch, unix.SYS_PRLIMIT64, [6]uint64{0, high | unix.RLIMIT_CORE, ptr}, ignored},
		{"prlimit that reads it", auditArch, unix.SYS_PRLIMIT64, [6]uint64{0, unix.RLIMIT_CORE, 0, ptr}, allow},
		{"prlimit of files", auditArch, unix.SYS_PRLIMIT64, [6]uint64{0, unix.RLIMIT_NOFILE, ptr}, allow},
		{"chown to itself", auditArch, unix.SYS_FCHOWN, [6]uint64{3, 1000, 100}, allow},
		{"chown of nothing", auditArch, unix.SYS_FCHOWN, [6]uint64{3, 1<<64 - 1, 1<<32 - 1}, allow},
		{"chown to root", auditArch, unix.SYS_FCHOWN, [6]uint64{3, 0, 100}, eperm},
		{"chown to root's group", auditArch, unix.SYS_FCHOWN, [6]uint64{3, 1000, 0}, eperm},
		{"chown to root, high bits", auditArch, unix.SYS_FCHOWN, [6]uint64{3, high, 100}, eperm},
		{"fchownat to itself", auditArch, unix.SYS_FCHOWNAT, [6]uint64{3, ptr, 1000, 100}, allow},
		{"fchownat to another", auditArch, unix.SYS_FCHOWNAT, [6]uint64{3, ptr, 1001, 100}, eperm},
		{"personality without random addresses", auditArch, unix.SYS_PERSONALITY, [6]uint64{0x40000}, allow},
		{"personality that is asked for", auditArch, unix.SYS_PERSONALITY, [6]uint64{0xffffffff}, allow},
		{"personality that makes readable memory executable", auditArch, unix.SYS_PERSONALITY, [6]uint64{0x440000}, eperm},
		{"personality that maps page 0", auditArch, unix.SYS_PERSONALITY, [6]uint64{0x100000}, eperm},
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
