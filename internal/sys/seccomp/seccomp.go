// Package seccomp holds the system call filter of a sandbox. It is Docker's default
// profile for a process without capabilities, which refuses among others io_uring,
// keyctl, userfaultfd, bpf, mount and new namespaces. It allows programs without randomised
// addresses, which debuggers need. Beyond that it refuses all but
// a few families and protocols of sockets, input into the terminal (TIOCSTI,
// TIOCLINUX), and changes of the limit on core dumps. It gives chown(2) to somebody else the error
// of a system with other users, EPERM: without one the kernel answers EINVAL.
//
// That of a sandbox with root inside allows chown(2), and chroot(2), which the profile allows with a
// capability that such root has.
//
// There is a filter for each architecture. go generate compiles the filters ahead of time, since
// the profile and its compiler would cost each start a millisecond. A test compares them with the
// profile.
package seccomp

//go:generate go run ./gen

import (
	"embed"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
)

//go:embed filter_*.bpf root_*.bpf
var filters embed.FS

// OwnUID and OwnGID stand for the user and the group of a sandbox in the compiled filters.
const (
	OwnUID = 0xf1d00001
	OwnGID = 0xf1d00002
)

// Filter returns the filter of a sandbox with this user and group, for the architecture that the
// program was built for: an array of struct sock_filter, as seccomp(2) and bwrap --seccomp take
// it.
func Filter(uid, gid uint32) ([]byte, error) {
	b, err := read("filter_")
	if err != nil {
		return nil, err
	}
	const size, jumpIfEqual = 8, 0x15 // BPF_JMP | BPF_JEQ | BPF_K
	for ins := range slices.Chunk(b, size) {
		if binary.LittleEndian.Uint16(ins) != jumpIfEqual {
			continue
		}
		switch binary.LittleEndian.Uint32(ins[4:]) {
		case OwnUID:
			binary.LittleEndian.PutUint32(ins[4:], uid)
		case OwnGID:
			binary.LittleEndian.PutUint32(ins[4:], gid)
		}
	}
	return b, nil
}

// RootFilter is Filter for a sandbox with root inside.
func RootFilter() ([]byte, error) { return read("root_") }

// read returns the filter of a kind.
func read(kind string) ([]byte, error) {
	b, err := filters.ReadFile(kind + runtime.GOARCH + ".bpf")
	if err != nil {
		return nil, fmt.Errorf("no seccomp filter for architecture %s: run go generate ./internal/sys/seccomp on it", runtime.GOARCH)
	}
	return b, nil
}
