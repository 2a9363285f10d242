// Package host is what a command line uses of this host: the state directory, runtimes, images.
package host

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/signals"
	"wolffia/internal/host/cause"
	"wolffia/internal/host/programs"
	"wolffia/internal/host/statedir"
	"wolffia/internal/shellword"
	"wolffia/local"
	"wolffia/runtime"
)

// A Host is what a command line uses of this host: the state directory, and the runtimes over it.
type Host struct {
	*console.Console
	Signals  *signals.Handler
	StateDir string       // --state-dir
	Log      *slog.Logger // the service's; nil for other commands
	Umask    *uint32      // the caller's, for copies and for what runs inside; nil for what serves others
	Version  string       // of wolffia
	Resume   bool         // --resume
	closers  []func() error
}

// AddResume adds --resume to a command that needs a running sandbox, and to those below it.
func (h *Host) AddResume(cmd *cobra.Command) {
	cmd.PersistentFlags().BoolVar(&h.Resume, "resume", false, "resume the sandbox if it is paused")
}

// Open returns the named runtime; an empty name means the default one. What a command does from
// then on signals end in order.
func (h *Host) Open(name string) (*local.Runtime, error) {
	h.Signals.Wait()
	return h.OpenAndPrime(name)
}

// OpenAndPrime is open for a command that makes and starts nothing before createAndStart or attach,
// which wait for the signals in its place.
func (h *Host) OpenAndPrime(name string) (*local.Runtime, error) {
	binary, err := wolffiaFile()
	if err != nil {
		return nil, err
	}
	made := !h.hasState()
	rt, err := newRuntime(name, &local.Options{Binary: binary, StateDir: h.StateDir, Progress: h.Progress(), Log: h.Log, Umask: h.Umask, Resume: h.Resume})
	if err != nil {
		return nil, err
	}
	h.closers = append(h.closers, rt.Close)
	if made {
		h.warnOfState(rt.StateDir())
	}
	return rt, nil
}

// hasState reports whether the state directory exists; true if its place is unknown.
func (h *Host) hasState() bool {
	path, err := h.StatePath()
	if err == nil {
		_, err = os.Stat(path)
	}
	return !errors.Is(err, fs.ErrNotExist)
}

// warnOfState says what the place of the state directory risks. Its creator gets the warning, once: locks on a
// network file system work until its server restarts.
func (h *Host) warnOfState(dir string) {
	c, found := cause.Of(&cause.Facts{Host: cause.This(), Symptom: cause.State, Dir: dir})
	switch {
	case !found:
	case h.Log != nil:
		h.Log.Warn(c.Problem, "stateDir", dir, "code", c.Code)
	default:
		h.Warn("%s: see %s doctor", c.Problem, h.Self())
	}
}

// Abandon has close leave all open: the end of the process closes it.
func (h *Host) Abandon() { h.closers = nil }

// Close closes what was opened.
func (h *Host) Close() (err error) {
	for _, c := range h.closers {
		err = errors.Join(err, c())
	}
	return err
}

// StatePath returns the path of the state directory, which need not exist.
func (h *Host) StatePath() (string, error) {
	if h.StateDir != "" {
		return filepath.Abs(h.StateDir)
	}
	return statedir.Default(os.Getenv, os.Geteuid())
}

// OpenState opens the state directory, which it makes if it does not exist.
func (h *Host) OpenState() (*statedir.Dir, error) {
	path, err := h.StatePath()
	if err != nil {
		return nil, err
	}
	return statedir.Open(path)
}

// StateIfExists opens the state directory; nil if it does not exist or cannot be used.
func (h *Host) StateIfExists() *statedir.Dir {
	path, err := h.StatePath()
	if err != nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(path, "sandboxes")); err != nil {
		return nil // Open would make it
	}
	dir, err := statedir.Open(path)
	if err != nil {
		return nil
	}
	return dir
}

// Self returns the beginning of a command line for a shell with which the user gets the same
// sandboxes.
func (h *Host) Self() string {
	if h.StateDir == "" {
		return "wolffia"
	}
	return "wolffia --state-dir " + shellword.Quote(h.StateDir)
}

// AddTo returns the beginning of the command line for a shell that adds the rules of flags to
// those of a sandbox.
func (h *Host) AddTo(sandbox string) string {
	return h.Self() + " policy add " + shellword.Quote(sandbox) + " "
}

// AllowTo returns the beginning of the command line for a shell that adds the names of flags to
// those that a sandbox can reach.
func (h *Host) AllowTo(sandbox string) string {
	return h.Self() + " network allow " + shellword.Quote(sandbox) + " "
}

// Program returns one of the programs that belong to wolffia. The caller closes it.
func Program(rt *local.Runtime, name string) (*programs.Program, error) {
	set, err := programs.Open(rt.Binary(), rt.StateDir())
	if err != nil {
		return nil, err
	}
	defer set.Close()
	return set.Program(name)
}

// wolffiaFile returns the file of wolffia if that has another name, or has executed this program as
// wolffia-serve, which it says by its path as the program's name; empty if package local finds it. Then it
// gives the process wolffia's name: no sandbox may be shown the socket of a process of that name
// (package hostsocket).
func wolffiaFile() (string, error) {
	self, err := os.Executable()
	if err != nil || filepath.Base(self) == "wolffia" {
		return "", err
	}
	file := os.Args[0] // of wolffia-serve, which can be a memory file
	if !strings.HasSuffix(self, programs.Serve) || !filepath.IsAbs(file) || file == self {
		set, err := programs.Open(self, "")
		if err != nil {
			return "", err
		}
		if file = self; !set.Carries() { // a wolffia in PATH has the programs
			file = ""
		}
		if err := set.Close(); err != nil || file == "" {
			return "", err
		}
	}
	if err := os.WriteFile("/proc/self/comm", []byte("wolffia"), 0); err != nil {
		return "", runtime.Errorf(runtime.ErrUnavailable, "name the process: %w", err)
	}
	return file, nil
}
