// Package history keeps what was done with sandboxes: it outlives them.
//
// It is a log of files in the state directory, history/runs and the older history/runs.1 and so on;
// each line is the JSON of one [Entry]. A line names the SHA-256 of the line before it, so that
// [Verify] finds one that was changed, added or taken out. Lines are only appended. The oldest file
// is removed when there are too many.
package history

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/statedir"
	"wolffia/runtime"
)

// The kinds of entries.
const (
	KindCommand = ""        // a command that has ended
	KindAnswer  = "answer"  // a question was answered
	KindApply   = "apply"   // changes of a sandbox were made on the host
	KindDiscard = "discard" // changes of a sandbox were taken back
	KindExport  = "export"  // commits of a sandbox were made branches of the host
)

// An Entry is what was done once. Add sets Seq, Prev and Torn.
type Entry struct {
	Seq  int64  `json:"seq,omitempty"`  // from 1 on; 0: an older version has written it
	Prev string `json:"prev,omitempty"` // the SHA-256 of the line before, in hexadecimal
	Torn bool   `json:"torn,omitempty"` // the line before is not an entry: its writer was killed
	Kind string `json:"kind,omitempty"`

	Time     time.Time     `json:"time"` // of its end
	Duration time.Duration `json:"durationNs,omitempty"`
	Dir      string        `json:"dir,omitempty"`      // the caller's working directory on the host
	Codebase string        `json:"codebase,omitempty"` // on the host; empty: none
	Sandbox  string        `json:"sandbox"`            // its ID; the sandbox need not exist any more
	Who      string        `json:"who,omitempty"`      // has done it, such as "console"; empty: the command line

	// Answer and Question are of KindAnswer. Changes counts those of KindApply and KindDiscard, and
	// Paths has the first of their paths; of KindExport they are branches, each as NAME COMMIT.
	Question *runtime.Question `json:"question,omitempty"`
	Answer   *runtime.Answer   `json:"answer,omitempty"`
	Changes  int               `json:"changes,omitempty"`
	Paths    []string          `json:"paths,omitempty"`

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

// Limits in bytes, and of numbers.
const (
	maxFile    = 1 << 20
	maxEntry   = 64 << 10
	maxCommand = 1 << 10
	maxFiles   = 16 // with the newest one
	maxPaths   = 100
)

// Off reports whether the user wants no history: WOLFFIA_HISTORY=off.
func Off() bool { return os.Getenv("WOLFFIA_HISTORY") == "off" }

// Add appends an entry to the history of a state directory, which must exist. It does nothing
// where the history is [Off]. Several processes may call it.
func Add(state string, e Entry) error {
	if Off() {
		return nil
	}
	e.Command, e.Paths = shortened(e.Command), e.Paths[:min(len(e.Paths), maxPaths)]
	dir := filepath.Join(state, "history")
	if err := ensureDir(dir); err != nil {
		return err
	}
	f, err := newest(dir, unix.LOCK_EX)
	if err != nil {
		return err
	}
	return errors.Join(e.append(f, dir), f.Close())
}

// append writes the entry behind the last line of the log, whose newest file is f.
func (e *Entry) append(f *os.File, dir string) error {
	tail, ended, err := tailOf(f)
	if err == nil && tail == nil { // the file is new
		tail, err = tailOfFile(older(dir, 1))
	}
	if err != nil {
		return err
	}
	e.follow(tail)
	line, err := json.Marshal(e)
	if err == nil && len(line) > maxEntry { // the sandbox chooses names
		e.DeniedMore, e.RefusedMore = e.DeniedMore+len(e.Denied), e.RefusedMore+len(e.Refused)
		e.Denied, e.Refused, e.Notes, e.Paths, e.Question = nil, nil, nil, nil, nil
		line, err = json.Marshal(e)
	}
	if err != nil {
		return err
	}
	if !ended {
		line = append([]byte{'\n'}, line...)
	}
	_, err = f.Write(append(line, '\n'))
	return err
}

// follow makes the entry the one after the last of some lines; nil: it is the first.
func (e *Entry) follow(tail [][]byte) {
	e.Seq, e.Prev, e.Torn = 1, "", false
	if len(tail) == 0 {
		return
	}
	e.Prev = hash(tail[len(tail)-1])
	for i, line := range slices.Backward(tail) {
		var before Entry
		if json.Unmarshal(line, &before) == nil {
			e.Seq = before.Seq + 1
			return
		}
		e.Torn = e.Torn || i == len(tail)-1
	}
}

// hash returns the hash of a line, without its end.
func hash(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

// tailOf returns the last lines of a file, without their ends; nil: it is empty. ended reports whether
// the last one has its end, as that of a killed writer may not.
func tailOf(f *os.File) (tail [][]byte, ended bool, err error) {
	st, err := f.Stat()
	if err != nil || st.Size() == 0 {
		return nil, true, err
	}
	b := make([]byte, min(st.Size(), 3*maxEntry))
	if _, err := f.ReadAt(b, st.Size()-int64(len(b))); err != nil {
		return nil, false, err
	}
	b, ended = bytes.CutSuffix(b, []byte{'\n'})
	return bytes.Split(b, []byte{'\n'}), ended, nil
}

// tailOfFile is tailOf for a file that may be missing.
func tailOfFile(path string) ([][]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	tail, _, err := tailOf(f)
	return tail, errors.Join(err, f.Close())
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

// newest opens and locks the newest file. For LOCK_EX one that is full, or that another user has put
// there, becomes an older one.
func newest(dir string, how int) (*os.File, error) {
	path := filepath.Join(dir, "runs")
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, err
		}
		// Others hold it for one write.
		err = unix.Flock(int(f.Fd()), how)
		st, err2 := f.Stat()
		if err = errors.Join(err, err2); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		now, err := os.Lstat(path)
		full := how == unix.LOCK_EX && (st.Size() > maxFile || !owns(st))
		switch {
		case err == nil && os.SameFile(now, st) && !full:
			return f, nil
		case err == nil && os.SameFile(now, st):
			err = shift(dir)
		case errors.Is(err, fs.ErrNotExist):
			err = nil // another process has renamed it
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
}

// shift makes each file the next older one, up to the first number that is free: one that was killed
// has left it so. The caller has locked the newest file.
func shift(dir string) error {
	free := 1
	for ; free < maxFiles-1; free++ {
		if _, err := os.Lstat(older(dir, free)); errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	for n := free; n > 0; n-- {
		if err := os.Rename(older(dir, n-1), older(dir, n)); err != nil {
			return err
		}
	}
	return nil
}

// older returns the path of a file; 0 is the newest.
func older(dir string, n int) string {
	if n == 0 {
		return filepath.Join(dir, "runs")
	}
	return filepath.Join(dir, "runs."+strconv.Itoa(n))
}
