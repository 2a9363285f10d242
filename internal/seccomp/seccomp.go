// Package seccomp holds the system call filter of a sandbox: Docker's default
// profile for a process without capabilities, and less than that: sockets of few
// families and protocols, no typing into the terminal (TIOCSTI, TIOCLINUX), no change
// of the limit on core dumps. What Docker's profile refuses already is among others
// io_uring, keyctl, userfaultfd, bpf, mount and new namespaces.
//
// The filters are computed when they are changed, not when they are used: the
// profile and its compiler would cost every start a millisecond. Go generate
// makes them; a test compares.
package seccomp

//go:generate go run ./gen

import (
	"embed"
	"fmt"
	"runtime"
)

//go:embed filter_*.bpf
var filters embed.FS

// Filter returns the program for this machine's architecture: an array of
// struct sock_filter as seccomp(2) and bwrap --seccomp take it.
func Filter() ([]byte, error) {
	b, err := filters.ReadFile("filter_" + runtime.GOARCH + ".bpf")
	if err != nil {
		return nil, fmt.Errorf("there is no seccomp filter for %s", runtime.GOARCH)
	}
	return b, nil
}
