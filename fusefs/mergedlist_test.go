package fusefs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// The listing of a directory keeps nothing of removed names, however many, and a listing that is
// under way meanwhile has each name that stays, once.
func TestMergedListForgets(t *testing.T) {
	w := newWaitingTree(t, true)
	root := w.root.node
	list := func(offset uint64, most int) (names []string, end uint64) {
		w.renameMu.RLock()
		defer w.renameMu.RUnlock()
		d, errno := w.acquireDir(root)
		if errno != 0 {
			t.Fatal(errno)
		}
		defer d.release()
		errno = w.copied.list(root, d, offset, func(e *entry, _ openDir, v fuse.DirEntry) bool {
			if len(names) == most {
				return false
			}
			names, end = append(names, e.name), v.Off
			return true
		})
		if errno != 0 {
			t.Fatal(errno)
		}
		return names, end
	}
	const files = 100
	name := func(round, i int) string { return filepath.Join(w.dir, fmt.Sprintf("round%d-%d", round, i)) }
	for i := range files {
		write(t, w.dir, fmt.Sprintf("stays%d", i), "")
	}
	const part = files / 3
	seen, at := list(0, part)
	for round := range 10 {
		for i := range files {
			ok(t, "make", os.WriteFile(name(round, i), nil, 0o644))
		}
		if names, _ := list(0, -1); len(names) != 2*files+3 { // ".", ".." and big
			t.Errorf("round %d: %d names", round, len(names))
		}
		for i := range files {
			ok(t, "remove", os.Remove(name(round, i)))
		}
		if names, _ := list(0, -1); len(names) != files+3 || cap(root.layers.listing.names) > 2*files {
			t.Errorf("round %d: %d names, room for %d", round, len(names), cap(root.layers.listing.names))
		}
	}
	rest, end := list(at, -1)
	all := slices.Concat(seen, rest)
	slices.Sort(all)
	if n := len(all); len(slices.Compact(all)) != n || n != files+3 {
		t.Errorf("the listing that was under way has %d names", n)
	}
	if more, _ := list(end, -1); more != nil {
		t.Errorf("after the end there are %v", more)
	}
}
