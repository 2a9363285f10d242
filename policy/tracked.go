package policy

import (
	"bytes"
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/git/gitscan"
	"wolffia/perm"
)

// A trackedFile is the entry of a file that looks like a secret in the index of a repository.
type trackedFile struct {
	gitscan.Entry               // Path is relative to the codebase
	tree          *gitscan.Tree // whose index it is
	file          *gitscan.File // on the disk; nil: nothing that git could track
}

// Bounds for reading indexes, which can be large and many.
const (
	indexLimit = 10 * time.Second // for all indexes together
	maxTracked = 50_000
	maxNested  = 256     // directories in the path of a file
	maxContent = 4 << 20 // bytes of a file that is compared with what git tracks
)

// trackedFiles returns the entries of all indexes for files that look like secrets,
// and the tops of the working trees whose index could not be read.
func (l *inspection) trackedFiles(ctx context.Context) (tracked []trackedFile, unread []string, err error) {
	if len(l.repos.Trees) == 0 {
		return nil, nil, nil
	}
	secrets, err := l.secrets()
	if err != nil {
		return nil, nil, err
	}
	limited, cancel := context.WithTimeout(ctx, indexLimit)
	defer cancel()
	for i := range l.repos.Trees {
		tree := &l.repos.Trees[i]
		m := matcher{policy: secrets, top: tree.Top}
		entries, err := gitscan.Tracked(limited, *tree, m.hidden)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if err != nil || m.found > maxTracked || len(tracked) > maxTracked {
			unread = append(unread, tree.Top)
			continue
		}
		for _, e := range entries {
			e.Path = path.Join(tree.Top, e.Path)
			if l.owner(e.Path) != i {
				continue // git uses the index of the repository in between
			}
			file, _ := gitscan.Read(l.root, e.Path, maxContent)
			tracked = append(tracked, trackedFile{Entry: e, tree: tree, file: file})
		}
	}
	slices.SortFunc(tracked, func(a, b trackedFile) int { return strings.Compare(a.Path, b.Path) })
	return tracked, unread, nil
}

// owner returns the index in inspection.repos.Trees of the innermost working tree that a file
// is in. So only one index decides about a file.
func (l *inspection) owner(file string) int {
	best, depth := -1, -1
	for i, tree := range l.repos.Trees {
		prefix := tree.Top + "/"
		if tree.Top == "." {
			prefix = ""
		}
		if strings.HasPrefix(file, prefix) && len(prefix) > depth {
			best, depth = i, len(prefix)
		}
	}
	return best
}

// A matcher decides which paths of an index look like secrets. It keeps the State of the
// last directory, since most paths are in the directory of the path before.
type matcher struct {
	policy *perm.Policy
	top    string
	dir    string
	state  perm.State
	known  bool
	found  int // paths that look like secrets
}

func (m *matcher) hidden(name []byte) bool {
	if !validPath(name) || bytes.Count(name, []byte("/")) > maxNested {
		return false
	}
	i := bytes.LastIndexByte(name, '/')
	if dir := name[:max(i, 0)]; !m.known || m.dir != string(dir) {
		m.dir, m.known, m.state = string(dir), true, m.policy.Root()
		for part := range strings.SplitSeq(path.Join(m.top, m.dir), "/") {
			if part != "." {
				m.state = m.policy.Enter(m.state, part)
			}
		}
	}
	if m.policy.Child(m.state, string(name[i+1:]), false) >= perm.Read {
		return false
	}
	m.found++
	return m.found <= maxTracked
}

// validPath reports whether an index may have a path: relative, and without
// empty names, "." and "..".
func validPath(p []byte) bool {
	for name := range bytes.SplitSeq(p, []byte("/")) {
		switch string(name) {
		case "", ".", "..":
			return false
		}
	}
	return len(p) > 0 && bytes.IndexByte(p, 0) < 0
}

// same reports whether git tracks the same bytes that the disk has.
func (c *trackedFile) same() bool {
	want := uint32(unix.S_IFREG)
	if c.file.Link {
		want = unix.S_IFLNK
	}
	return c.file.Content != nil && c.Mode&unix.S_IFMT == want && bytes.Equal(gitscan.BlobID(c.file.Content, len(c.ID)), c.ID)
}
