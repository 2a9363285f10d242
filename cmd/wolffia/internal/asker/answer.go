package asker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"wolffia/cmd/wolffia/internal/history"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/fields"
	"wolffia/internal/config"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/statefile"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
)

// Answer answers a question of a sandbox. With runtime.ScopeAlways what it allows is written into a
// configuration file first; note says into which one.
func Answer(ctx context.Context, h *host.Host, rt *local.Runtime, sandbox string, q *runtime.Question, a *runtime.Answer) (note string, err error) {
	if a.Allow && a.Scope == runtime.ScopeAlways {
		if err := q.CheckAnswer(a); err != nil {
			return "", err
		}
		b, err := rt.Get(ctx, sandbox)
		if err != nil {
			return "", err
		}
		if note, err = always(h, b.CodebasePath, q, a.Target); err != nil {
			return "", err
		}
	}
	if err = rt.Answer(ctx, sandbox, a); err == nil {
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
// the project's, which is trusted then. It returns what it did.
func always(h *host.Host, codebase string, q *runtime.Question, target string) (string, error) {
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
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return "", err
		}
		return fmt.Sprintf("allow-host %s is in %s, for all projects", target, file), add(file, data, "allow-host", target, config.Place{Name: file})
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
	if err := add(file, data, "reveal", rule, config.Place{Name: file, Dir: codebase, Project: true}); err != nil {
		return "", err
	}
	return fmt.Sprintf("reveal %s is in %s, which is trusted", rule, file), trust(h, codebase)
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

// trust has a project's file count with the content that it has now.
func trust(h *host.Host, dir string) error {
	data, err := config.ReadProject(dir)
	if err != nil {
		return err
	}
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

// add writes a configuration file with one more value of a list.
func add(file string, data []byte, key, value string, at config.Place) error {
	text, err := config.Add(string(data), key, value)
	if err != nil {
		return runtime.Errorf(runtime.ErrInvalid, "%s: %w", file, err)
	}
	if text == string(data) {
		return nil
	}
	at.Home, _ = os.UserHomeDir()
	if _, err := config.Parse(fields.Keys(), at, []byte(text)); err != nil {
		return runtime.Errorf(runtime.ErrInvalid, "%s: cannot have %s added, add it by hand: %w", file, key+": "+value, err)
	}
	if to, err := filepath.EvalSymlinks(file); err == nil && !at.Project {
		file = to
	}
	mode := fs.FileMode(0o644)
	if st, err := os.Stat(file); err == nil {
		mode = st.Mode().Perm()
	}
	if err := statefile.WriteBytes(file, []byte(text)); err != nil {
		return err
	}
	return os.Chmod(file, mode)
}
