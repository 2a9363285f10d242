// Package hostgit runs the host's git on a repository to which commits of a sandbox come. Nothing
// that a sandbox has written may be executed by it: hooks, file system monitors, pagers, editors
// and filters are off, but for the filter of git-lfs. The configuration is the user's own:
// sandboxes have copies of it, unless a rule shows it in place.
package hostgit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"wolffia/internal/sys/hostpath"
	"wolffia/runtime"
)

// limit is how long one command of git may take.
const limit = 5 * time.Minute

// A Repo is a repository of the host. It is safe for concurrent use.
type Repo struct {
	dir  string   // top of a working tree
	safe []string // options before the command
}

// Open returns the repository whose working tree has its top at dir. The error is of class
// runtime.ErrInvalid if dir is not the top of a working tree, and of class runtime.ErrUnavailable
// if the host has no git.
func Open(ctx context.Context, dir string) (*Repo, error) {
	if _, err := hostpath.Look("git"); err != nil {
		return nil, errNoGit
	}
	if st, err := os.Lstat(dir + "/.git"); err != nil || !st.IsDir() {
		return nil, runtime.Errorf(runtime.ErrInvalid,
			"%s is not the top of a git repository with a directory .git of its own: name its top with --codebase DIR", dir)
	}
	r := &Repo{dir: dir, safe: []string{
		"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.pager=cat",
		"-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "submodule.recurse=false",
	}}
	// The status 1 is that of no match.
	list, err := r.Run(ctx, "config", "--null", "--get-regexp", `^(filter|hook)\.`)
	if failed, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || failed.ExitCode() != 1) {
		return nil, err
	}
	r.safe = append(r.safe, off(list)...)
	return r, nil
}

// off returns options that switch off the filters and hooks in list, the answer of git config
// --null --get-regexp, but for the filters of git-lfs. A command can be a relative path, which a
// branch's own content would fill. core.hooksPath does not switch off hooks of a configuration,
// which git has since 2.54.
func off(list string) (options []string) {
	for entry := range strings.SplitSeq(list, "\x00") {
		key, value, _ := strings.Cut(entry, "\n")
		if last := strings.LastIndexByte(key, '.'); strings.HasPrefix(key, "hook.") && last > len("hook") {
			options = append(options, "-c", key[:last]+".enabled=false")
			continue
		}
		command := strings.HasSuffix(key, ".smudge") || strings.HasSuffix(key, ".clean") || strings.HasSuffix(key, ".process")
		switch {
		case strings.HasPrefix(value, "git-lfs ") || strings.HasPrefix(value, "git lfs "):
		case command:
			options = append(options, "-c", key+"=")
		case strings.HasSuffix(key, ".required") && !strings.HasPrefix(key, "filter.lfs."):
			options = append(options, "-c", key+"=false")
		}
	}
	return options
}

// Run runs a command of git in the repository and returns its output, without the last newline. An
// error has the end of git's messages.
func (r *Repo) Run(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := git(ctx, append(append([]string{"-C", r.dir}, r.safe...), args...)...)
	cmd.Env, cmd.WaitDelay = environ(os.Environ()), time.Second
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s in %s: %s: %w", args[0], r.dir, tail(said.String()), err)
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// git returns a command of the git that no sandbox can have put into PATH. Without one it fails.
func git(ctx context.Context, args ...string) *exec.Cmd {
	path, _ := hostpath.Look("git")
	return exec.CommandContext(ctx, path, args...)
}

// environ returns the environment of git: the caller's, without variables that direct git
// elsewhere or make it execute a program, and with prompts disabled.
func environ(all []string) (env []string) {
	for _, v := range all {
		name, _, _ := strings.Cut(v, "=")
		switch {
		case name == "PATH":
			v = "PATH=" + hostpath.Path("git", "git-lfs")
		case name == "GIT_CONFIG_GLOBAL", name == "GIT_CONFIG_SYSTEM", name == "GIT_CONFIG_NOSYSTEM":
		case strings.HasPrefix(name, "GIT_"), name == "LC_ALL", name == "LANGUAGE":
			continue
		}
		env = append(env, v)
	}
	return append(env, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_EDITOR=true",
		"GIT_NO_LAZY_FETCH=1")
}

// tail returns the end of what git has said, on one line.
func tail(said string) string {
	const most = 500 // bytes
	said = strings.Join(strings.FieldsFunc(said, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	if len(said) > most {
		said = "..." + strings.ToValidUTF8(said[len(said)-most:], "")
	}
	return said
}
