// Package seccomp holds the system call filter of a sandbox. It is Docker's default
// profile for a process without capabilities, which refuses among others io_uring,
// keyctl, userfaultfd, bpf, mount and new namespaces. Beyond that it refuses all but
// a few families and protocols of sockets, input into the terminal (TIOCSTI,
// TIOCLINUX), and changes of the limit on core dumps.
//
// There is a filter for each architecture. go generate compiles the filters ahead of time, since
// the profile and its compiler would cost each start a millisecond. A test compares them with the
// profile.
package seccomp

//go:generate go run ./gen

import (
	"embed"
	"fmt"
	"runtime"
)

//go:embed filter_*.bpf
var filters embed.FS

// Filter returns the filter for the architecture that the program was built for: an
// array of struct sock_filter, as seccomp(2) and bwrap --seccomp take it.
func Filter() ([]byte, error) {
	b, err := filters.ReadFile("filter_" + runtime.GOARCH + ".bpf")
	if err != nil {
		return nil, fmt.Errorf("no seccomp filter for architecture %s: run go generate ./internal/sys/seccomp on it", runtime.GOARCH)
	}
	return b, nil
}
