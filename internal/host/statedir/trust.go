package statedir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"wolffia/internal/sys/statefile"
	"wolffia/runtime"
)

// trustDir has a file for each directory whose configuration file is trusted: no process
// rewrites what another one has written of another directory, so no lock is needed.
const trustDir = "trust"

// A Trust is the record that the user has read the configuration file of a directory.
type Trust struct {
	Path      string `json:"path"`      // of the directory, absolute, without links
	SHA256    string `json:"sha256"`    // of the file's content, in hex
	TrustedAt int64  `json:"trustedAt"` // ms since 1970
}

// Trusted returns the record of the directory path in the state directory state, which
// need not exist. nil: there is no record, or it is damaged.
func Trusted(state, path string) (*Trust, error) {
	t := &Trust{}
	switch err := statefile.Read(trustFile(state, path), t); {
	case errors.Is(err, fs.ErrPermission):
		return nil, runtime.Errorf(runtime.ErrUnavailable, "record of trust in %s: %w", path, err)
	case err != nil, t.Path != path, t.SHA256 == "":
		return nil, nil
	}
	return t, nil
}

// Trust writes a record.
func (d *Dir) Trust(t *Trust) error {
	file := trustFile(d.path, t.Path)
	err := EnsureDir(filepath.Dir(file), 0o700, 0o022)
	if err == nil {
		err = statefile.Write(file, t)
	}
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "record of trust in %s: %w", t.Path, err)
	}
	return nil
}

// Distrust removes the record of a directory. ErrNotFound: there is no record.
func (d *Dir) Distrust(path string) error {
	err := os.Remove(trustFile(d.path, path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return runtime.Errorf(runtime.ErrNotFound, "%s is not trusted: wolffia trust --list shows what is", path)
	case err != nil:
		return runtime.Errorf(runtime.ErrUnavailable, "record of trust in %s: %w", path, err)
	}
	return nil
}

// Trusts returns all records, sorted by path.
func (d *Dir) Trusts() ([]Trust, error) {
	entries, err := os.ReadDir(filepath.Join(d.path, trustDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "list records of trust: %w", err)
	}
	var all []Trust
	for _, e := range entries {
		t := Trust{}
		file := filepath.Join(d.path, trustDir, e.Name())
		if statefile.Read(file, &t) == nil && trustFile(d.path, t.Path) == file {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b Trust) int { return strings.Compare(a.Path, b.Path) })
	return all, nil
}

// trustFile returns the path of the record of the directory at path.
func trustFile(state, path string) string {
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(state, trustDir, hex.EncodeToString(sum[:16])+".json")
}
