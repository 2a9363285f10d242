package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"wolffia/internal/host/cause"
	"wolffia/internal/sys/bubblewrap"
	"wolffia/internal/sys/hostpath"
)

// bwrapFacts are the facts about bubblewrap.
type bwrapFacts struct {
	path    string // "" if it is not installed
	shipped bool   // with wolffia
	refused error  // why that one is not used, if it is needed
	version string // output of --version
	setuid  bool
	run     error  // of a program in a sandbox
	stderr  string // of that program
	noProc  error  // as run, without a new /proc; only tried if run failed
}

func probeBubblewrap(ctx context.Context, h *host) Result {
	var f bwrapFacts
	f.path, f.refused = bubblewrap.Shipped(filepath.Dir(h.Program))
	if f.shipped = f.path != ""; !f.shipped {
		f.path, _ = hostpath.Look("bwrap")
	}
	if f.path == "" {
		return decideBubblewrap(f, h)
	}
	if info, err := os.Stat(f.path); err == nil {
		f.setuid = info.Mode()&fs.ModeSetuid != 0
	}
	f.version, _ = output(ctx, exec.CommandContext(ctx, f.path, "--version"))
	f.stderr, f.run = tryBubblewrap(ctx, f.path, "--proc", "/proc")
	if f.run != nil {
		_, f.noProc = tryBubblewrap(ctx, f.path)
	}
	return decideBubblewrap(f, h)
}

// tryBubblewrap runs a program in a sandbox with the options of the runtime, and as root of a user namespace, as the
// runtime does. The sandbox has that program and /usr only: with the host's root, bubblewrap would fail
// if any mount of the host went meanwhile, as that of another sandbox.
func tryBubblewrap(ctx context.Context, path string, more ...string) (stderr string, err error) {
	program, err := openTrue()
	if err != nil {
		return "", err
	}
	defer program.Close()
	args := append([]string{
		"--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL", "--new-session", "--dev", "/dev",
		"--ro-bind-try", "/usr", "/usr", "--perms", "0555", "--ro-bind-data", "3", "/true",
	}, more...)
	cmd := exec.CommandContext(ctx, path, append(args, "--", "/true")...)
	cmd.SysProcAttr = ownNamespaces() // there a set-user-ID bit has no effect
	cmd.ExtraFiles = []*os.File{program}
	return output(ctx, cmd)
}

// decideBubblewrap returns the result for the facts.
func decideBubblewrap(f bwrapFacts, h *host) (r Result) {
	if f.refused != nil {
		defer func() { r.Problem += "; " + f.refused.Error() }()
	}
	v := version(f.version)
	facts := &cause.Facts{Host: h, Bwrap: cause.Bwrap{Path: f.path, Version: v, Setuid: f.setuid}}
	if f.path == "" {
		facts.Symptom = cause.NoBwrap
		r.Warn(facts)
		return r
	}
	r.Found = firstLine(f.version) + " at " + f.path
	if f.shipped {
		r.Found += ", shipped with wolffia: the host has none, or an older one than 0.8.0"
	}
	switch {
	case v == nil:
		r.Found, r.Code = f.path, "bwrap-other"
		r.Problem = fmt.Sprintf("it is not bubblewrap: the output of --version is %q", firstLine(f.version))
		r.Fix = h.Install("bubblewrap")
		return r
	case f.run == nil, cause.TooOld(v):
		r.Warn(facts) // of what works: a risk
		r.OK = f.run == nil && !cause.TooOld(v)
		return r
	case errors.Is(f.run, context.DeadlineExceeded) || errors.Is(f.run, context.Canceled):
		r.Code, r.Problem = "bwrap-slow", "a sandbox did not start in time"
		return r
	}
	if facts.Said = firstLine(f.stderr); facts.Said == "" {
		facts.Said = f.run.Error()
	}
	switch {
	case f.noProc == nil:
		facts.Symptom = cause.Proc
	case !errors.As(f.run, new(*exec.ExitError)): // it was not even started
		facts.Symptom = cause.OfStart(f.run)
	}
	if !r.Warn(facts) {
		r.Problem = "a sandbox does not start: " + facts.Said
	}
	switch r.Code {
	case "gvisor-host", "proc-missing", "wsl1": // which All clears if that feature works
		r.Because = UserNamespaces
	}
	if slices.Contains(noUserNS, r.Code) {
		r.Problem = fmt.Sprintf("%s (see the feature %s)", facts.Said, UserNamespaces)
		r.Because, r.Fix = UserNamespaces, ""
	}
	return r
}

// noUserNS are the causes of user namespaces, which have a result of their own.
var noUserNS = []string{
	"apparmor-userns", "chroot", "container-apparmor", "container-mounts", "container-seccomp", "seccomp-filter",
	"userns-clone", "userns-denied", "userns-full", "userns-kernel", "userns-max-zero",
}
