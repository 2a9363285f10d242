package statedir

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"wolffia/internal/sys/statefile"
	"wolffia/runtime"
)

// A Codebase is the record of a directory for which rules were made. Sandboxes over the
// directory cannot change it.
type Codebase struct {
	Path string `json:"path"` // absolute, without links

	// Policies are the policy files below Path that its rules were made with, and the
	// links that led to them, relative to Path.
	Policies []string `json:"policies,omitempty"`
}

// KnownCodebases returns the records, in the state directory state, of the directory path,
// which is absolute and without links, and of the directories above it, the innermost
// first. A damaged record has no Policies. The state directory need not exist.
func KnownCodebases(state, path string) ([]Codebase, error) {
	var all []Codebase
	for dir := path; ; dir = filepath.Dir(dir) {
		b, err := statefile.ReadBytes(recordFile(state, dir), statefile.MaxFile)
		switch {
		case err == nil:
			c := Codebase{}
			if json.Unmarshal(b, &c) != nil || c.Path != dir { // as after a crash of the machine
				c = Codebase{Path: dir}
			}
			all = append(all, c)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, runtime.Errorf(runtime.ErrUnavailable, "record of codebase %s: %w", dir, err)
		}
		if dir == "/" {
			return all, nil
		}
	}
}

// Remember writes the record of c, or replaces it.
func (d *Dir) Remember(c *Codebase) error {
	file := recordFile(d.path, c.Path)
	err := EnsureDir(filepath.Dir(file), d.mode, 0o022)
	if err == nil {
		err = writeRecord(file, c)
	}
	if err != nil {
		return unusable(d.path, fmt.Errorf("record of codebase %s: %w", c.Path, err))
	}
	return nil
}

// recordFile returns the path of the record of the codebase at path.
func recordFile(state, path string) string {
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(state, "codebases", hex.EncodeToString(sum[:16])+".json")
}

// partAge is the age from which a partial record is taken for a killed process's.
const partAge = time.Hour

// writeRecord writes c to a new file of a name of its own and then gives it its name. What
// killed processes have left is removed.
func writeRecord(file string, c *Codebase) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	parts, _ := filepath.Glob(file + ".*" + statefile.Coming)
	for _, part := range parts {
		if info, err := os.Lstat(part); err == nil && time.Since(info.ModTime()) > partAge {
			_ = os.Remove(part)
		}
	}
	part := file + "." + rand.Text() + statefile.Coming
	if err := statefile.Create(part, b); err != nil {
		return err
	}
	return os.Rename(part, file)
}
