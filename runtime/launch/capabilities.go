package launch

import "golang.org/x/sys/unix"

// A Capability is one of capabilities(7).
type Capability struct {
	Name   string
	Number uint
}

// RootCapabilities are those of programs in a sandbox with Spec.RootInside: Docker's, without MKNOD and
// NET_RAW. They count for the sandbox's own files, users and processes only: mounts, networks and
// the kernel's settings belong to a user namespace above.
var RootCapabilities = []Capability{
	{"CAP_CHOWN", unix.CAP_CHOWN},
	{"CAP_DAC_OVERRIDE", unix.CAP_DAC_OVERRIDE},
	{"CAP_FOWNER", unix.CAP_FOWNER},
	{"CAP_FSETID", unix.CAP_FSETID},
	{"CAP_KILL", unix.CAP_KILL},
	{"CAP_SETGID", unix.CAP_SETGID},
	{"CAP_SETUID", unix.CAP_SETUID},
	{"CAP_SETPCAP", unix.CAP_SETPCAP},
	{"CAP_NET_BIND_SERVICE", unix.CAP_NET_BIND_SERVICE},
	{"CAP_SYS_CHROOT", unix.CAP_SYS_CHROOT},
	{"CAP_SETFCAP", unix.CAP_SETFCAP},
	{"CAP_AUDIT_WRITE", unix.CAP_AUDIT_WRITE},
}

// OwnCapabilities are those that PID 1 alone has beside them, and the programs that it starts never:
// to look at processes of all users of the sandbox.
var OwnCapabilities = []Capability{
	{"CAP_SYS_PTRACE", unix.CAP_SYS_PTRACE},
	{"CAP_SYS_RESOURCE", unix.CAP_SYS_RESOURCE},
}

// capabilityMask returns a set with a bit for each of RootCapabilities.
func capabilityMask() (mask uint64) {
	for _, c := range RootCapabilities {
		mask |= 1 << c.Number
	}
	return mask
}
