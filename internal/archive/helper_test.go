package archive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

// list describes a tree, one line for each file. Times of directories that
// exist before change with what is put into them: they are only in when asked.
func list(t testing.TB, root string, times bool) []string {
	t.Helper()
	var all []string
	must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		line := fmt.Sprintf("%q %v", rel, info.Mode())
		if times {
			line += " " + info.ModTime().UTC().Format(time.RFC3339Nano)
		}
		switch {
		case info.Mode().IsRegular():
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %q", text)
		case info.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" -> %q", target)
		}
		all = append(all, line)
		return nil
	}))
	return all
}

// transfer packs and unpacks at once, as cp does.
func transfer(t testing.TB, from, to string, opts *Options) error {
	t.Helper()
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() { // ends when the reader is closed
		_, err := Pack(w, from)
		w.CloseWithError(err)
		packed <- err
	}()
	err := Unpack(r, to, opts)
	r.Close()
	return errors.Join(err, <-packed)
}

// packed packs what holds files, directories and links only.
func packed(t testing.TB, w io.Writer, path string) {
	t.Helper()
	skipped, err := Pack(w, path)
	if err != nil || skipped != "" {
		t.Fatalf("%q, %v", skipped, err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

type errorReader struct{ err error }

func (e errorReader) Read([]byte) (int, error) { return 0, e.err }
