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
// that do not exist, and renames that a program has replaced by a copy, as mv(1) does. The last ones
// have a place: they made a command fail.
func (t *treeServer) denials(n int64) *runtime.Denials {
	root, err := unix.Open(t.codebase, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(root)
	d, size := &runtime.Denials{}, 0
	for _, r := range slices.Backward(t.recent.Since(n)) {
		if r.IsLookup() && !exists(root, r.Path) || r.Errno == "EXDEV" && t.made(root, r.Path) {
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

// made reports whether the sandbox can have made name in the codebase, which is open as root, or in
// its copy.
func (t *treeServer) made(root int, name string) bool {
	return exists(root, name) || t.copied != nil && exists(int(t.copied.upper.Fd()), name)
}

// exists reports whether the directory open as root has a path. It follows no link, does not leave
// the directory, and takes a whiteout for nothing.
func exists(root int, name string) bool {
	dir, err := beneath.Open(root, path.Dir(name), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	return unix.Fstatat(dir, path.Base(name), &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT != unix.S_IFCHR
}
