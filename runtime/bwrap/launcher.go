// Package bwrap launches sandboxes with bubblewrap, in Linux namespaces. It needs neither root nor
// a daemon. All of the isolation is in [Args], but for what is in /dev (dev.go), and the limits of
// directories in memory (memory.go); the rest of the package starts the program.
package bwrap

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/child"
	"wolffia/internal/sys/hostpath"
	"wolffia/internal/sys/userns"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// Name is the runtime's name.
const Name = "bwrap"

// A Launcher starts sandboxes with the bubblewrap at Path; empty: at [launch.Spec.Program], else the
// one in PATH.
type Launcher struct{ Path string }

var _ launch.Launcher = Launcher{}

// Name implements [launch.Launcher].
func (Launcher) Name() string { return Name }

// Launch implements [launch.Launcher].
func (l Launcher) Launch(spec *launch.Spec) (_ *launch.Instance, err error) {
	defer func() {
		if err != nil {
			_ = spec.Barrier.Close()
		}
	}()
	path := cmp.Or(l.Path, spec.Program)
	if path == "" {
		if path, err = hostpath.Look("bwrap"); err != nil {
			return nil, runtime.Errorf(runtime.ErrUnavailable, "bubblewrap is not installed: install the package bubblewrap (%w)", err)
		}
	}
	if err := errors.Join(makeDev(spec), makeMemory(spec)); err != nil {
		return nil, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	filter, err := filterFile(spec.Seccomp)
	if err != nil {
		return nil, err
	}
	defer filter.Close()
	files := []*os.File{filter} // seccompFD
	if spec.Clients != nil || spec.RootInside {
		files = append(files, spec.Clients) // launch.ClientsFD
	}
	if spec.RootInside {
		inner, err := userns.Inner()
		if err != nil {
			return nil, runtime.Errorf(runtime.ErrUnavailable, "the user namespace of root inside: %w", err)
		}
		defer inner.Close()
		files = append(files, inner) // usernsFD
	}
	theirs, options, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	info, theirInfo, err := os.Pipe()
	if err != nil {
		_ = options.Close()
		return nil, err
	}
	defer theirInfo.Close()
	n := 3 + len(files)
	command := []string{"bwrap", "--args", strconv.Itoa(n), "--info-fd", strconv.Itoa(n + 1), "--"}
	c, err := child.StartPiped(&child.Command{
		Path: path, Args: append(command, spec.Command("")...), Files: append(files, theirs, theirInfo),
		// --die-with-parent does the same for bwrap and PID 1, but later.
		Attr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		_, _ = options.Close(), info.Close()
		return nil, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	if w := (&waiting{c, options, Args(spec)}); spec.Barrier == nil {
		err = w.resume()
	} else {
		go w.await(spec.Barrier) // ends when the caller opens the barrier, or ends
	}
	if err != nil {
		_ = info.Close()
		return nil, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	inst := &launch.Instance{Stream: c.Stream, Stderr: c.Stderr, PID: c.PID(), Wait: c.Wait, Kill: c.Kill}
	inst.Namespaced = func() int { return childPID(info) }
	return inst, nil
}

// childPID returns the number of bubblewrap's child, as --info-fd gives it before the child goes on;
// 0: bubblewrap has ended. It closes info.
func childPID(info *os.File) int {
	defer info.Close()
	var is struct {
		PID int `json:"child-pid"`
	}
	_ = json.NewDecoder(info).Decode(&is)
	return is.PID
}

// filterFile returns a file in memory with the filter, at offset 0. The caller closes it.
func filterFile(filter []byte) (*os.File, error) {
	if len(filter) == 0 {
		return nil, errors.New("no seccomp filter: a sandbox without one is not started")
	}
	fd, err := unix.MemfdCreate("seccomp", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "seccomp")
	_, err = f.Write(filter)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("write the seccomp filter: %w", err)
	}
	return f, nil
}
