package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"wolffia/internal/host/cause"
	"wolffia/internal/sys/hostpath"
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

// tryUserNS runs mount(8) as root of a new user and mount namespace. The mount does not
// propagate: a mount namespace of another user namespace is a slave of the first, see
// mount_namespaces(7).
func tryUserNS(ctx context.Context) (start, mount error) {
	args := []string{"mount", "-n", "-t", "tmpfs", "tmpfs", "/proc"} // a directory everywhere
	path, err := hostpath.Look(args[0])
	if err != nil {
		args = []string{"true"} // tests only the namespaces
		if path, err = hostpath.Look(args[0]); err != nil {
			return fmt.Errorf("no program to start: %w", err), nil
		}
	}
	cmd := exec.CommandContext(ctx, path, args[1:]...)
	cmd.SysProcAttr = ownNamespaces()
	text, err := output(ctx, cmd)
	if errors.As(err, new(*exec.ExitError)) {
		return nil, errors.New(firstLine(text))
	}
	return err, nil
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
