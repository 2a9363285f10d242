package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"

	"wolffia/internal/sys/hostpath"
)

// bwrapFacts are the facts about bubblewrap.
type bwrapFacts struct {
	path    string // "" if it is not installed
	version string // output of --version
	setuid  bool
	run     error  // of a program in a sandbox
	stderr  string // of that program
	noProc  error  // as run, without a new /proc; only tried if run failed
}

func probeBubblewrap(ctx context.Context, h *host) Result {
	path, err := hostpath.Look("bwrap")
	f := bwrapFacts{path: path}
	if err != nil {
		return decideBubblewrap(bwrapFacts{}, h)
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

// tryBubblewrap runs the program true in a sandbox with the options of the runtime. The sandbox
// has that program and the places of libraries only: with the host's root, bubblewrap would fail
// if any mount of the host went meanwhile, as that of another sandbox.
func tryBubblewrap(ctx context.Context, path string, more ...string) (stderr string, err error) {
	const inside = "/true" // some link true to a program that looks at its own name
	program, err := hostpath.Look("true")
	if err != nil {
		return "", err
	}
	args := []string{
		"--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL",
		"--new-session", "--dev", "/dev", "--ro-bind", program, inside,
	}
	for _, dir := range []string{"/usr", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store"} {
		args = append(args, "--ro-bind-try", dir, dir)
	}
	args = append(append(args, more...), "--", inside)
	return output(ctx, exec.CommandContext(ctx, path, args...))
}

// oldest is the first bubblewrap with --disable-userns.
func oldest() []int { return []int{0, 8, 0} }

// decideBubblewrap returns the result for the facts.
func decideBubblewrap(f bwrapFacts, h *host) Result {
	if f.path == "" {
		return Result{Problem: "bubblewrap is not installed, or not in PATH", Fix: h.install("bubblewrap")}
	}
	r := Result{Found: firstLine(f.version) + " at " + f.path}
	v := version(f.version)
	said := firstLine(f.stderr)
	if said == "" && f.run != nil {
		said = f.run.Error()
	}
	switch {
	case v == nil:
		r.Found = f.path
		r.Problem = fmt.Sprintf("it is not bubblewrap: the output of --version is %q", firstLine(f.version))
		r.Fix = h.install("bubblewrap")
	case older(v, oldest()):
		r.Problem = "it is too old: --disable-userns needs version 0.8.0"
		r.Fix = h.install("bubblewrap") + "\n# or build it: https://github.com/containers/bubblewrap/releases"
	case f.run == nil && f.setuid:
		r.OK = true
		r.Problem = "it is installed setuid root, which wolffia does not need"
		r.Fix = h.sudo("chmod u-s " + f.path)
	case f.run == nil:
		r.OK = true
	case errors.Is(f.run, context.DeadlineExceeded) || errors.Is(f.run, context.Canceled):
		r.Problem = "a sandbox did not start in time"
	case f.noProc == nil && h.container != "":
		r.Problem = "/proc of this container is masked, so that a sandbox cannot have its own: " + said
		r.Fix = h.restart()
	case f.noProc == nil:
		r.Problem = "a sandbox cannot have its own /proc, as for something mounted over a part of the host's: " + said
		r.Fix = "findmnt -R /proc # and unmount what is below"
	case noUserNS(f.stderr):
		r.Problem = fmt.Sprintf("%s (see the feature %s)", said, UserNamespaces)
		r.Because = UserNamespaces
	case f.setuid:
		r.Problem = "it is installed setuid root: " + said
		r.Fix = h.sudo("chmod u-s " + f.path)
	default:
		r.Problem = "a sandbox does not start: " + said
	}
	return r
}

// noUserNS reports whether bubblewrap failed for want of user namespaces, or of the
// capabilities in them that AppArmor denies.
func noUserNS(stderr string) bool {
	signs := []string{"new namespace", "uid map", "RTM_NEWADDR", "Failed to make / slave"}
	return slices.ContainsFunc(signs, func(s string) bool { return strings.Contains(stderr, s) })
}
