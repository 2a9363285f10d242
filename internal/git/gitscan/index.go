package gitscan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"wolffia/internal/git/gitindex"
)

const (
	maxIndex = 256 << 20 // bytes of an index
	maxNames = 64 << 20  // bytes of paths that are returned
)

// An Entry is the entry of an index for one file.
type Entry struct {
	Path string // relative to the top of the working tree
	Mode uint32 // 0100644, 0100755, 0120000 for a link, or 0160000 for a submodule
	ID   []byte // of the object with its content; nil in an unresolved merge

	// Attributes of the file when git last read this content from it: times in
	// nanoseconds since 1970, and the low 32 bits of the inode number and of the size.
	// Zero if git has not read it.
	Ctime, Mtime int64
	Inode, Size  uint32
}

// Tracked returns the entries of the index of t for the paths that want accepts, sorted and each
// once. path is valid until want returns. A missing index has no entries; a damaged or too large
// one is an error.
//
// The checksum is not verified. Directories of a sparse index are skipped. Both parts of a split
// index are read; an entry whose content alone changed since the shared part was written has the
// content of the shared part.
func Tracked(ctx context.Context, t Tree, want func(path []byte) bool) ([]Entry, error) {
	entries, shared, err := readIndex(ctx, filepath.Join(t.Dir, "index"), want)
	if err == nil && shared != "" {
		var more []Entry
		more, _, err = readIndex(ctx, filepath.Join(t.Dir, "sharedindex."+shared), want)
		entries = append(entries, more...)
	}
	if err != nil {
		return nil, fmt.Errorf("index in %q: %w", t.Dir, err)
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Path, b.Path) })
	return slices.CompactFunc(entries, func(a, b Entry) bool { return a.Path == b.Path }), nil
}

// readIndex reads an index file; a missing file has no entries. shared is the name of the index
// that it extends, or "".
func readIndex(ctx context.Context, path string, want func([]byte) bool) (entries []Entry, shared string, err error) {
	f, err := openRegular(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, "", err
	}
	if info.Size() > maxIndex {
		return nil, "", errIndexSize
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, "", err
	}
	x, err := gitindex.Parse(data)
	if err != nil {
		return nil, "", err
	}
	total := 0
	for i := range x.Len() {
		if i%checkSkip == 0 && ctx.Err() != nil {
			return nil, "", ctx.Err()
		}
		name := x.Name(i)
		// Without a name it replaces an entry of the shared index.
		if len(name) == 0 || name[len(name)-1] == '/' || !want(name) {
			continue
		}
		if total += len(name); total > maxNames {
			return nil, "", errIndexSize
		}
		s := x.Stat(i)
		e := Entry{Path: string(name), Mode: s.Mode}
		if x.Stage(i) == 0 {
			e.ID = slices.Clone(x.ID(i))
			e.Ctime, e.Mtime = nanoseconds(s.CtimeSec, s.CtimeNsec), nanoseconds(s.MtimeSec, s.MtimeNsec)
			e.Inode, e.Size = s.Ino, s.Size
		}
		entries = append(entries, e)
	}
	return entries, x.Shared(), nil
}

const checkSkip = 1 << 12 // entries between checks of the context

func nanoseconds(sec, nsec uint32) int64 { return int64(sec)*1e9 + int64(nsec) }

var errIndexSize = errors.New("too large")
