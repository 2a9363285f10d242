package probe

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"wolffia/internal/host/cause"
)

// usernsFacts are the facts about user namespaces.
type usernsFacts struct {
	start error // of starting a process in a new user and mount namespace
	mount error // of mounting a tmpfs there
}

func probeUserNS(ctx context.Context, h *host) Result {
	start, mount := tryUserNS(ctx)
	return decideUserNS(usernsFacts{start: start, mount: mount}, h)
}

// tryUserNS starts a process as root of a new user and mount namespace, and has it mount there: it makes the
// mounts private, which a kernel and a security module allow to whom they allow other mounts.
func tryUserNS(ctx context.Context) (start, mount error) {
	program, err := openTrue()
	if err != nil {
		return err, nil
	}
	defer program.Close()
	run := func(attr *syscall.SysProcAttr) error {
		cmd := exec.CommandContext(ctx, fmt.Sprintf("/proc/self/fd/%d", program.Fd()))
		cmd.SysProcAttr = attr
		_, err := output(ctx, cmd)
		return err
	}
	attr := ownNamespaces()
	if err := run(attr); err != nil {
		return err, nil
	}
	attr.Cloneflags, attr.Unshareflags = syscall.CLONE_NEWUSER, syscall.CLONE_NEWNS // then package syscall mounts
	return nil, run(attr)
}

// ownNamespaces has a process started as root of a new user and mount namespace, as a shim is.
func ownNamespaces() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
	}
}

// decideUserNS returns the result for the facts.
func decideUserNS(f usernsFacts, h *host) (r Result) {
	facts := &cause.Facts{Host: h}
	switch {
	case f.start == nil && f.mount == nil:
		r.OK, r.Found = true, "they work"
		if h.Max != "" {
			r.Found += ", at most " + h.Max
		}
		return r
	case f.start != nil:
		facts.Symptom, facts.Said = cause.OfStart(f.start), f.start.Error()
	default:
		facts.Symptom, facts.Said = cause.Mounts, f.mount.Error()
	}
	if !r.Warn(facts) {
		r.Problem = "a process in a user namespace cannot start or mount: " + firstLine(facts.Said)
	}
	return r
}
