package gitsync

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"wolffia/internal/sys/statefile"
)

// followed are the files of a git directory that the sandbox gets again when the host's change,
// while its own are as the host's were. All below hooks are as well.
var followed = []string{"config", "config.worktree", "info/exclude", "info/attributes", "info/sparse-checkout"}

// maxHooks bounds the names in hooks.
const maxHooks = 1000

// followScript replaces the file $1 of the git directory inside by the standard input, with mode
// $2; "" removes it.
const followScript = `set -C
f=$(g rev-parse --git-common-dir)/$1 || exit 50
[ -n "$2" ] || { rm -f "$f"; exit; }
mkdir -p "${f%/*}" && cat >"$f.lock" || exit 51
chmod "$2" "$f.lock" && mv -f "$f.lock" "$f" || { rm -f "$f.lock"; exit 52; }
`

// example reports whether a file in hooks is an example, which git does not execute. The copy has
// none.
func example(name string) bool { return strings.HasSuffix(name, ".sample") }

func digest(b []byte) string {
	if b == nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// files returns the digests of what filter, if any, leaves of the files that follow the host's.
func (t tree) files(filter func(name string, content []byte) []byte) (map[string]string, error) {
	got := make(map[string]string)
	one := func(name string) {
		b, err := t.read(name, statefile.MaxFile)
		if err == nil && filter != nil {
			b = filter(name, b)
		}
		if err == nil && b != nil {
			got[name] = digest(b)
		}
	}
	for _, name := range followed {
		one(name)
	}
	err := t.list("hooks", maxHooks, func(dir string, entries []os.DirEntry) error {
		for _, e := range entries {
			if e.Type().IsRegular() && !example(e.Name()) {
				one(dir + "/" + e.Name())
			}
		}
		return nil
	})
	return got, err
}

// follow brings configuration, patterns and hooks of the host that have changed to the sandbox,
// unless it has changed them too. any is whether it did.
func (s *run) follow(ctx context.Context) (any bool, err error) {
	if s.Common != "" {
		return false, nil
	}
	names := make(map[string]bool)
	for _, n := range followed {
		names[n] = true
	}
	hooks, _ := os.ReadDir(filepath.Join(s.host.Common(), "hooks")) // it may be missing
	for _, e := range hooks[:min(len(hooks), maxHooks)] {
		names["hooks/"+e.Name()] = !example(e.Name())
	}
	for n := range s.rec.Files {
		names[n] = true
	}
	var mine map[string]string
	for name, follows := range names {
		if !follows {
			continue
		}
		content, mode, err := s.wanted(name)
		if err != nil {
			return any, err
		}
		if digest(content) == s.rec.Files[name] {
			continue
		}
		if mine == nil {
			if mine, err = s.private.files(nil); err != nil {
				return any, err
			}
		}
		if mine[name] != s.rec.Files[name] {
			continue // the sandbox's own
		}
		if err := s.do(ctx, bytes.NewReader(content), followScript, name, mode); err != nil {
			return any, err
		}
		any = true
		if s.rec.Files[name] = digest(content); content == nil {
			delete(s.rec.Files, name)
		}
	}
	return any, nil
}

// wanted returns the content that the sandbox gets of a file of the host, and its mode. It returns
// nil and "" if the sandbox does not get the file.
func (s *run) wanted(name string) (content []byte, mode string, err error) {
	dir := s.host.Common()
	if name == "config.worktree" || name == "info/sparse-checkout" {
		dir = s.host.Path()
	}
	st, err := os.Lstat(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !st.Mode().IsRegular() {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	if content, err = statefile.ReadBytes(filepath.Join(dir, name), statefile.MaxFile); err != nil {
		return nil, "", err
	}
	if s.Filter != nil {
		content = s.Filter(name, content)
	}
	if mode = "644"; st.Mode()&0o100 != 0 {
		mode = "755"
	}
	return content, mode, nil
}
