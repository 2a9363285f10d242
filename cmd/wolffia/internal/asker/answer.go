package asker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/cmd/wolffia/internal/history"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/fields"
	"wolffia/internal/config"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/statefile"
	"wolffia/internal/sys/step"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
)

// Answer answers a question of a sandbox. With runtime.ScopeAlways what it allows is then written into
// a configuration file; note says into which one. A file that cannot have it is an error before, and
// the question still waits.
func Answer(ctx context.Context, h *host.Host, rt *local.Runtime, sandbox string, q *runtime.Question, a *runtime.Answer) (note string, err error) {
	isAlways, codebase := a.Allow && a.Scope == runtime.ScopeAlways, ""
	if isAlways {
		if err := q.CheckAnswer(a); err != nil {
			return "", err
		}
		b, err := rt.Get(ctx, sandbox)
		if err != nil {
			return "", err
		}
		codebase = b.CodebasePath
		if _, err := always(h, codebase, q, a.Target, true); err != nil {
			return "", err
		}
	}
	if err = rt.Answer(ctx, sandbox, a); err == nil {
		step.Reached("answer: given")
		if isAlways {
			if note, err = always(h, codebase, q, a.Target, false); err != nil {
				err = fmt.Errorf("sandbox %s has the rule, the configuration file has not: %w", sandbox, err)
			}
		}
		e := history.Entry{Kind: history.KindAnswer, Time: time.Now(), Sandbox: sandbox, Who: a.By, Question: q, Answer: a}
		if b, err := rt.Get(ctx, sandbox); err == nil {
			e.Sandbox, e.Codebase = b.ID, b.CodebasePath
		}
		if err := history.Add(rt.StateDir(), e); err != nil {
			h.Warn("write the history: %v", err)
		}
	}
	return note, err
}

// always writes what an answer allows into a configuration file: a host into the user's, a path into
// the project's, which is trusted then. It returns what it did. With dry it only says whether it could.
func always(h *host.Host, codebase string, q *runtime.Question, target string, dry bool) (string, error) {
	if target == "" {
		target = q.Targets[0]
	}
	if q.Kind == runtime.AskNetwork {
		file := config.UserFile(os.Getenv)
		if file == "" {
			return "", runtime.Errorf(runtime.ErrUnavailable, "your configuration file: neither XDG_CONFIG_HOME nor HOME is set")
		}
		data, err := config.ReadUser(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", runtime.Errorf(runtime.ErrInvalid, "%s: %w", file, err)
		}
		text, err := added(file, data, "allow-host", target, config.Place{Name: file})
		if err != nil || dry {
			return "", err
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return "", err
		}
		if to, err := filepath.EvalSymlinks(file); err == nil {
			file = to
		}
		return fmt.Sprintf("allow-host %s is in %s, for all projects", target, file), replace(file, data, text)
	}
	if codebase == "" {
		return "", runtime.Errorf(runtime.ErrInvalid, "the sandbox has no codebase whose configuration file could have the rule: answer for this sandbox")
	}
	data, err := config.ReadProject(codebase)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", runtime.Errorf(runtime.ErrInvalid, "%s: %w", filepath.Join(codebase, config.ProjectName), err)
	}
	if err == nil { // else a file that is not trusted would be
		if trusted, err := isTrusted(h, codebase, data); err != nil || !trusted {
			return "", errors.Join(err, runtime.Errorf(runtime.ErrConflict,
				"%s is not trusted: wolffia trust %s, or answer for this sandbox", config.ProjectName, codebase))
		}
	}
	file := filepath.Join(codebase, config.ProjectName)
	rule := target + "=" + max(q.Need, perm.Read).String()
	text, err := added(file, data, "reveal", rule, config.Place{Name: file, Dir: codebase, Project: true})
	if err != nil || dry {
		return "", err
	}
	if err := replace(file, data, text); err != nil {
		return "", err
	}
	step.Reached("answer: file written")
	return fmt.Sprintf("reveal %s is in %s, which is trusted", rule, file), trust(h, codebase, text)
}

// isTrusted reports whether a project's file counts.
func isTrusted(h *host.Host, dir string, data []byte) (bool, error) {
	path, sum, err := sandboxflags.Identify(dir, data)
	if err != nil {
		return false, err
	}
	state, err := h.OpenState()
	if err != nil {
		return false, err
	}
	all, err := state.Trusts()
	for _, t := range all {
		if t.Path == path && t.SHA256 == sum {
			return true, nil
		}
	}
	return false, err
}

// trust has a project's file count with this content: who else writes it is not trusted.
func trust(h *host.Host, dir string, data []byte) error {
	path, sum, err := sandboxflags.Identify(dir, data)
	if err != nil {
		return err
	}
	state, err := h.OpenState()
	if err != nil {
		return err
	}
	return state.Trust(&statedir.Trust{Path: path, SHA256: sum, TrustedAt: time.Now().UnixMilli()})
}

// added returns a configuration file with one more value of a list.
func added(file string, data []byte, key, value string, at config.Place) ([]byte, error) {
	text, err := config.Add(string(data), key, value)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "%s: %w", file, err)
	}
	at.Home, _ = os.UserHomeDir()
	if _, err := config.Parse(fields.Keys(), at, []byte(text)); err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "%s: cannot have %s added, add it by hand: %w", file, key+": "+value, err)
	}
	return []byte(text), nil
}

// replace writes a configuration file anew, unless that is what it has. Its mode stays.
func replace(file string, was, text []byte) error {
	if bytes.Equal(was, text) {
		return nil
	}
	mode := fs.FileMode(0o644)
	if st, err := os.Lstat(file); err == nil {
		mode = st.Mode().Perm()
	}
	if err := statefile.WriteBytes(file, text); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(mode), f.Close())
}
