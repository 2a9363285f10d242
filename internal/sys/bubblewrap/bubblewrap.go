// Package bubblewrap finds the bubblewrap that is shipped with wolffia, for hosts without one.
package bubblewrap

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"wolffia/internal/sys/hostpath"
)

// Name is the name of the program that is shipped: scripts/bwrap builds it.
const Name = "wolffia-bwrap"

// option is what the oldest version that wolffia can use, 0.8.0, is the first to have.
const option = "--disable-userns"

// maxProgram is how many bytes of a program are read. That of Debian has 70 kB.
const maxProgram = 16 << 20

// Shipped returns the absolute path of the bubblewrap that is shipped with the wolffia in the
// directory beside, if this host has none in PATH that is new enough; empty: it has one, or none
// is shipped. The error says why the one that is needed must not be executed. It is safe for
// concurrent use.
func Shipped(beside string) (string, error) {
	path := place(beside)
	if path == "" {
		return "", nil
	}
	if host, err := hostpath.Look("bwrap"); err == nil && !old(host) {
		return "", nil
	}
	if err := check(path); err != nil {
		return "", err
	}
	return path, nil
}

// place returns where the program is; empty: nowhere. beside is wolffia's directory, as
// the tarball makes it, or bin in the prefix where a package or make install has put it.
func place(beside string) string {
	if !filepath.IsAbs(beside) {
		return ""
	}
	dirs := []string{"."}
	if filepath.Base(beside) == "bin" {
		dirs = append(dirs, "../lib/wolffia", "../libexec/wolffia")
	}
	for _, dir := range dirs {
		path := filepath.Join(beside, dir, Name)
		if _, err := os.Lstat(path); err == nil {
			return path
		}
	}
	return ""
}

// check returns an error unless the program is root's or this user's, who alone can change it, and
// no sandbox can. Who can exchange it can exchange wolffia too, which is in the same prefix.
func check(path string) error {
	st, err := os.Lstat(path)
	if err != nil {
		return err
	}
	own, is := st.Sys().(*syscall.Stat_t)
	switch {
	case !is || !st.Mode().IsRegular():
		return fmt.Errorf("%s is not a file: install wolffia again", path)
	case own.Uid != 0 && int(own.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d, so wolffia does not execute it: chown it to yourself or root", path, own.Uid)
	case st.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("others can write to %s, so wolffia does not execute it: chmod go-w %s", path, path)
	case !hostpath.Trusted(path):
		return fmt.Errorf("a sandbox can write to %s, so wolffia does not execute it: install wolffia elsewhere", path)
	}
	return nil
}

// old reports whether a program is a bubblewrap without the option. One that cannot be read, or is a
// script, is taken for new.
func old(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxProgram))
	return err == nil && bytes.HasPrefix(b, []byte("\x7fELF")) && !bytes.Contains(b, []byte(option))
}
