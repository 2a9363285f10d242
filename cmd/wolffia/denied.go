package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/audit"
	"wolffia/local"
	"wolffia/runtime"
)

// deniedNote returns one line about what was denied, without newline; empty if nothing was.
// flags is what the flags that allow it follow, and all says where the other denials are.
func deniedNote(r *runtime.Result, flags, all string) string {
	if len(r.Denied) == 0 {
		return ""
	}
	first := &r.Denied[0]
	note := fmt.Sprintf("denied by the rules: %s %s", first.Op, first.Path)
	rule, _, _ := strings.Cut(first.Rule, " (") // its conditions are in audit and policy explain
	switch {
	case rule != "" && first.Source != "":
		note += fmt.Sprintf(" (rule %q of %s)", rule, first.Source)
	case rule != "":
		note += fmt.Sprintf(" (rule %q)", rule)
	}
	if first.Why != "" {
		note += ": " + first.Why
	}
	if first.Allow != "" {
		note += "; to allow it: " + flags + first.Allow
	}
	if more := len(r.Denied) - 1 + r.DeniedMore; more > 0 {
		note += fmt.Sprintf("; %d more: %s", more, all)
	}
	return note
}

// noteDenied reports on standard error what was denied while a command ran. create says that
// this command line describes the sandbox.
func (a *app) noteDenied(exit *runtime.Result, id string, create bool) {
	rules, names, all := a.addTo(id), a.allowTo(id), a.self()+" audit "+shellWord(id)
	if create {
		rules, names, all = "", "", "--audit FILE writes all"
	}
	for _, note := range []string{deniedNote(exit, rules, all), refusedNote(exit, names, all)} {
		if note != "" && !a.quiet {
			fmt.Fprintln(a.err, "wolffia:", printable(note))
		}
	}
}

// self returns the beginning of a command line for a shell with which the user gets the same
// sandboxes.
func (a *app) self() string {
	if a.stateDir == "" {
		return "wolffia"
	}
	return "wolffia --state-dir " + shellWord(a.stateDir)
}

// addTo returns the beginning of the command line for a shell that adds the rules of flags to
// those of a sandbox.
func (a *app) addTo(sandbox string) string {
	return a.self() + " policy add " + shellWord(sandbox) + " "
}

// allowTo returns the beginning of the command line for a shell that adds the names of flags to
// those that a sandbox can reach.
func (a *app) allowTo(sandbox string) string {
	return a.self() + " network allow " + shellWord(sandbox) + " "
}

// refusedNote returns one line about what the network has refused, as deniedNote.
func refusedNote(r *runtime.Result, flags, all string) string {
	if len(r.Refused) == 0 {
		return ""
	}
	first := &r.Refused[0]
	note := fmt.Sprintf("refused by the network: %s %s: %s", first.Op, first.Host(), first.Reason)
	if first.Allow != "" {
		note += "; to allow it: " + flags + first.Allow
	}
	if more := len(r.Refused) - 1 + r.RefusedMore; more > 0 {
		note += fmt.Sprintf("; %d more: %s", more, all)
	}
	return note
}

// shellWord quotes a word for a shell if it has other than plain characters.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+:@%", r)
	}
	if s != "" && strings.TrimFunc(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// auditFlags are the flags of run about the log of denials.
type auditFlags struct {
	audit string
	file  *os.File
}

// open opens the file, so that it fails before the command runs. The sandbox must not be able
// to have put a link there, nor to change the log.
func (f *auditFlags) open(c *runtime.SandboxConfig, name string) error {
	if f.audit = name; name == "" {
		return nil
	}
	dir, err := filepath.Abs(filepath.Dir(f.audit))
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return runtime.Errorf(runtime.ErrInvalid, "--audit: %w", err)
	}
	shown := []string{c.CodebasePath}
	for _, m := range c.Mounts {
		if m.Writable {
			shown = append(shown, m.Source)
		}
	}
	for _, place := range shown {
		if real, err := filepath.EvalSymlinks(place); err == nil && within(dir, real) {
			return runtime.Errorf(runtime.ErrInvalid, "--audit %s: the sandbox could change a file in %s: name a file outside of it", f.audit, place)
		}
	}
	if f.file, err = os.OpenFile(f.audit, os.O_WRONLY|os.O_CREATE|unix.O_NONBLOCK, 0o600); err != nil {
		return runtime.Errorf(runtime.ErrInvalid, "--audit: %w", err)
	}
	if st, err := f.file.Stat(); err == nil && st.Mode().IsRegular() {
		err = f.file.Truncate(0)
		if err != nil {
			return runtime.Errorf(runtime.ErrInvalid, "--audit: %w", err)
		}
	}
	return nil
}

// write writes the log of a sandbox, which it stops first so that the log is complete.
func (f *auditFlags) write(ctx context.Context, a *app, rt *local.Runtime, id string) (err error) {
	if f.file == nil {
		return nil
	}
	defer func() {
		if err = errors.Join(err, f.file.Close()); err != nil {
			err = fmt.Errorf("--audit %s: %w", f.audit, err)
		}
	}()
	if err := rt.Stop(ctx, id); err != nil {
		return err
	}
	log, _, err := rt.Audit(ctx, id)
	if errors.Is(err, runtime.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the sandbox has ended by itself, and with it its log: %w", err)
	}
	if err != nil {
		return err
	}
	defer log.Close()
	out := bufio.NewWriter(f.file)
	err = printAll(log, func(r audit.Record) error { return printRecord(out, &r, true, "") })
	if n := log.Skipped(); n > 0 {
		a.warn("%d lines of the audit log are damaged and left out", n)
	}
	return errors.Join(err, out.Flush())
}
