package main

import (
	"archive/zip"
	"io/fs"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The caches of programs that are on this host.
func TestCacheScripts(t *testing.T) {
	t.Parallel()
	p := scripts(t, "testdata/cache")
	p.Cmds["zip"] = zipDir
	testscript.Run(t, p)
}

// zipDir is the script command zip FILE DIR: it writes an archive of what is in a directory,
// as a Go module proxy has it.
func zipDir(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: zip FILE DIR")
	}
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	ts.Check(err)
	defer f.Close()
	w := zip.NewWriter(f)
	dir := os.DirFS(ts.MkAbs(args[1]))
	ts.Check(fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(dir, name)
		if err != nil {
			return err
		}
		entry, err := w.Create(name)
		if err == nil {
			_, err = entry.Write(content)
		}
		return err
	}))
	ts.Check(w.Close())
}
