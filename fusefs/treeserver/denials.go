package treeserver

import (
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/audit"
	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/beneath"
	"wolffia/perm"
	"wolffia/runtime"
)

// remember adds a denial to those that a client may ask for when its command has ended, and
// shows clients that there is one more.
func (t *treeServer) remember(r audit.Record, rules *perm.Policy) {
	_ = statedir.CountDenials(boot.FDLock, t.recent.Add(r, rules))
}

// Bounds of a reply: the number of denials, and the bytes of their texts, which JSON can make
// six times as long.
const maxDenials, maxDenialText = 10, 8 << 10

// denials returns the denials after the first n, in order; nil if these are only lookups of names
// that do not exist. The last ones have a place: they made a command fail.
func (t *treeServer) denials(n int64) *runtime.Denials {
	root, err := unix.Open(t.codebase, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(root)
	d, size := &runtime.Denials{}, 0
	for _, r := range slices.Backward(t.recent.Since(n)) {
		if r.IsLookup() && !exists(root, r.Path) {
			continue
		}
		one := r.Denial()
		size += len(one.Path) + len(one.Rule) + len(one.Source) + len(one.Reason) + len(one.Allow)
		if len(d.List) == maxDenials || len(d.List) > 0 && size > maxDenialText {
			d.More++
			continue
		}
		d.List = append(d.List, one)
	}
	if len(d.List) == 0 {
		return nil
	}
	slices.Reverse(d.List)
	return d
}

// exists reports whether the codebase, open as root, has a path. It follows no link, and does
// not leave the codebase.
func exists(root int, name string) bool {
	dir, err := beneath.Open(root, path.Dir(name), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	return unix.Fstatat(dir, path.Base(name), &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}
