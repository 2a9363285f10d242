package main

import (
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"wolffia/internal/sys/seccomp"
)

// A check runs before the profile's own conditions of a call. It refuses or allows the call by
// returning, or continues after its last instruction.
//
// A check compares the low half of an argument only. The kernel ignores the high
// half of an int: a comparison of all 64 bits, as Docker's profile has them, would
// let the same call through with a high bit set (CVE-2019-10063).
type check []bpf.Instruction

// Allow-lists of sockets. The kernel loads the module of whatever family or
// protocol a process names: what is not on a list fails as on a kernel without it
// (socket(2), EAFNOSUPPORT, ESOCKTNOSUPPORT, EPROTONOSUPPORT), which programs expect.
var (
	// netlinkProtocols are those that work without privileges and that programs
	// use: addresses and routes (getifaddrs(3)), and news of devices (libusb).
	// gVisor has no others. libaudit takes EPROTONOSUPPORT for a kernel without audit.
	netlinkProtocols = []uint32{unix.NETLINK_ROUTE, unix.NETLINK_KOBJECT_UEVENT}
	// inetProtocols are those that are part of the kernel itself, and RAW, which
	// the kernel refuses without privileges. SCTP, DCCP and L2TP are left out.
	inetProtocols = []uint32{
		unix.IPPROTO_IP, unix.IPPROTO_ICMP, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMPV6,
		unix.IPPROTO_RAW, unix.IPPROTO_MPTCP,
	}
)

// otherTypes are the bits of a socket's type that all types but SOCK_STREAM,
// SOCK_DGRAM and SOCK_RAW have: SOCK_DCCP and SOCK_PACKET name a protocol and a
// family of their own.
const otherTypes = 0xc

// addrNoRandomize is ADDR_NO_RANDOMIZE of personality(2).
const addrNoRandomize = 0x40000

// checks are our checks beyond Docker's profile, by name of the call.
var checks = map[string]check{
	"ioctl": slices.Concat(
		check{argument(1)},
		check{bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCSTI, SkipTrue: 1}, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.TIOCLINUX, SkipTrue: 1}},
		check{refuse(uint32(unix.EPERM))},
	),
	"socket": choose(0, []option{
		{[]uint32{unix.AF_UNIX}, nil},
		{[]uint32{unix.AF_NETLINK}, only(2, netlinkProtocols, unix.EPROTONOSUPPORT)},
		{[]uint32{unix.AF_INET, unix.AF_INET6}, slices.Concat(
			check{argument(1), bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: otherTypes, SkipTrue: 1}, refuse(uint32(unix.ESOCKTNOSUPPORT))},
			only(2, inetProtocols, unix.EPROTONOSUPPORT),
		)},
	}, unix.EAFNOSUPPORT),
	// Without randomised addresses: a debugger and ThreadSanitizer start programs so. A program that
	// gains privileges by execve(2) does not inherit it.
	"personality": {
		argument(0),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: addrNoRandomize, SkipTrue: 1},
		allow,
	},
	"socketpair": only(0, []uint32{unix.AF_UNIX}, unix.EAFNOSUPPORT),
	// A limit of 1 byte on core dumps is what keeps the kernel from running the
	// host's handler of them (core(5), "Piping core dumps to a program"; limit
	// 0 does not, see coredump_pipe in the kernel's fs/coredump.c). So the limit cannot
	// be changed. The call says that it has been, since programs that must not
	// dump core (gpg, ssh-agent) give up if they cannot set it to 0.
	"setrlimit": choose(0, []option{{[]uint32{unix.RLIMIT_CORE}, check{refuse(0)}}}, 0),
	// No other user exists in a sandbox: its user namespace has one user and one group.
	"chown": owner(1), "lchown": owner(1), "fchown": owner(1), "fchownat": owner(2),
	"prlimit64": choose(1, []option{{[]uint32{unix.RLIMIT_CORE}, unlessNull(2, check{refuse(0)})}}, 0),
}

// ofOneUser are those of checks that a sandbox with root inside does not have: it has other users.
var ofOneUser = []string{"chown", "lchown", "fchown", "fchownat"}

// owner returns a check that refuses a user in argument i and a group in the next one, unless they
// are the sandbox's or -1 (chown(2)).
func owner(i int) check {
	const unchanged = 1<<32 - 1
	return slices.Concat(
		only(i, []uint32{unchanged, seccomp.OwnUID}, unix.EPERM),
		only(i+1, []uint32{unchanged, seccomp.OwnGID}, unix.EPERM),
	)
}

// argument loads the low half of an argument.
func argument(i int) bpf.Instruction {
	return bpf.LoadAbsolute{Off: offArgs + 8*uint32(i), Size: 4}
}

// An option is the check of a call in which an argument has one of values.
type option struct {
	values []uint32
	check  check
}

// choose returns a check that runs the check of the option that lists the value of
// argument i. Other values are refused with errno, or allowed to continue if errno is 0.
func choose(i int, options []option, errno unix.Errno) check {
	var rest check // what follows the options that are prepended
	if errno != 0 {
		rest = check{refuse(uint32(errno))}
	}
	for _, o := range slices.Backward(options) {
		// A call that has passed its own check continues behind the rest.
		body := append(slices.Clone(o.check), bpf.Jump{Skip: uint32(len(rest))})
		rest = slices.Concat(among(o.values, uint8(len(body))), body, rest)
	}
	return append(check{argument(i)}, rest...)
}

// only returns a check that refuses a call with errno unless argument i is among values.
func only(i int, values []uint32, errno unix.Errno) check {
	return choose(i, []option{{values, nil}}, errno)
}

// among returns a test that skips over further instructions unless the loaded word
// is among values.
func among(values []uint32, over uint8) check {
	var c check
	for n, v := range values {
		if last := n == len(values)-1; last {
			c = append(c, bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipFalse: over})
		} else {
			c = append(c, bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipTrue: uint8(len(values) - 1 - n)})
		}
	}
	return c
}

// unlessNull returns a check that runs c if argument i is a pointer other than NULL.
func unlessNull(i int, c check) check {
	high := bpf.LoadAbsolute{Off: offArgs + 8*uint32(i) + 4, Size: 4}
	return slices.Concat(check{
		argument(i),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 2},
		high,
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: uint8(len(c))},
	}, c)
}
