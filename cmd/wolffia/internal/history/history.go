// Package history keeps how commands ended: it outlives their sandboxes.
//
// It is two files in the state directory, history/runs and the older history/runs.1; each line is
// the JSON of one [Entry]. Together they have at most 2 MiB.
package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/statedir"
	"wolffia/runtime"
)

// An Entry is one command that has ended.
type Entry struct {
	Time     time.Time     `json:"time"` // of its end
	Duration time.Duration `json:"durationNs"`
	Dir      string        `json:"dir"`                // the caller's working directory on the host
	Codebase string        `json:"codebase,omitempty"` // on the host; empty: none
	Sandbox  string        `json:"sandbox"`            // its ID; the sandbox need not exist any more
	// Command is empty for a shell. Of a long one it has the beginning.
	Command     []string          `json:"command,omitempty"`
	ExitCode    int               `json:"exitCode"` // wolffia's
	Denied      []runtime.Denial  `json:"denied,omitempty"`
	DeniedMore  int               `json:"deniedMore,omitempty"`
	Refused     []runtime.Refusal `json:"refused,omitempty"`
	RefusedMore int               `json:"refusedMore,omitempty"`
	// Notes are the lines that wolffia printed at the end, also those about denials.
	Notes []string `json:"notes,omitempty"`
}

// Limits in bytes.
const (
	maxFile    = 1 << 20
	maxEntry   = 64 << 10
	maxCommand = 1 << 10
)

// Off reports whether the user wants no history: WOLFFIA_HISTORY=off.
func Off() bool { return os.Getenv("WOLFFIA_HISTORY") == "off" }

// Add appends an entry to the history of a state directory, which must exist. It does nothing
// where the history is [Off]. Several processes may call it.
func Add(state string, e Entry) error {
	if Off() {
		return nil
	}
	e.Command = shortened(e.Command)
	line, err := json.Marshal(&e)
	if err == nil && len(line) > maxEntry { // the sandbox chooses names
		e.DeniedMore, e.RefusedMore = e.DeniedMore+len(e.Denied), e.RefusedMore+len(e.Refused)
		e.Denied, e.Refused, e.Notes = nil, nil, nil
		line, err = json.Marshal(&e)
	}
	if err != nil {
		return err
	}
	dir := filepath.Join(state, "history")
	if err := ensureDir(dir); err != nil {
		return err
	}
	f, err := newer(filepath.Join(dir, "runs"))
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// ensureDir makes the directory, and takes from others the permissions for one that the user owns.
func ensureDir(dir string) error {
	st, err := os.Lstat(dir)
	if err == nil && st.IsDir() && st.Mode().Perm() != 0o700 && owns(st) {
		_ = os.Chmod(dir, 0o700)
	}
	return statedir.EnsureDir(dir, 0o700, 0o077)
}

// owns reports whether the user owns a file.
func owns(st fs.FileInfo) bool { return int(st.Sys().(*syscall.Stat_t).Uid) == os.Geteuid() }

// shortened returns the beginning of a command line.
func shortened(command []string) []string {
	room := maxCommand
	for i, arg := range command {
		if room -= len(arg) + 1; room < 0 {
			return append(command[:i:i], arg[:max(0, len(arg)+room)]+"...")
		}
	}
	return command
}

// newer opens and locks the newer file for appending. If it is full, or another user has put it
// there, it becomes the older one.
func newer(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, err
		}
		// Others hold it for one write.
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		st, err2 := f.Stat()
		if err = errors.Join(err, err2); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		now, err := os.Lstat(path)
		full := st.Size() > maxFile || !owns(st)
		switch {
		case err == nil && os.SameFile(now, st) && !full:
			return f, nil
		case err == nil && os.SameFile(now, st):
			err = os.Rename(path, path+".1")
		case errors.Is(err, fs.ErrNotExist):
			err = nil // another process has renamed it
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
}

// Read returns the entries from a time on, oldest first. A missing history is empty. Lines that
// are not entries, as after a crash, are left out.
func Read(state string, since time.Time) ([]Entry, error) {
	var all []Entry
	for _, name := range []string{"runs.1", "runs"} {
		path := filepath.Join(state, "history", name)
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(io.LimitReader(f, 2*maxFile))
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		for line := range bytes.Lines(text) {
			var e Entry
			if json.Unmarshal(line, &e) == nil && !e.Time.Before(since) {
				all = append(all, e)
			}
		}
	}
	return all, nil
}
