package local

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/internal/git/gitpairs"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/statefile"
)

// placeFile, in the directory of a git directory's base, says where it was: the sandbox can move
// the directories that it is in, and the host's half moves with them.
const placeFile = "place.json"

// A gitPlace is where a git directory was, and its inode on the host.
type gitPlace struct {
	Private string `json:"private"`
	Device  uint64 `json:"device"`
	Inode   uint64 `json:"inode"`
}

// placeOf returns the place of a git directory that the host has; ok is false if it is not there.
func placeOf(f *gitpairs.Pair) (p gitPlace, ok bool) {
	var st unix.Stat_t
	if unix.Lstat(f.Host, &st) != nil {
		return gitPlace{}, false
	}
	return gitPlace{f.Private, st.Dev, st.Ino}, true
}

// follow brings the base of a git directory that was moved, which has none at its new place, to
// that place; and records the place of one that has a base. b.mu is held.
func (b *gitBox) follow(f *gitpairs.Pair) {
	at, ok := placeOf(f)
	if f.Made || !ok {
		return
	}
	base := b.bases()
	state := b.bases(statedir.GitBaseName(f.Private))
	var was gitPlace
	if _, err := os.Lstat(state); err == nil {
		if statefile.Read(filepath.Join(state, placeFile), &was) != nil || was != at {
			_ = statefile.Write(filepath.Join(state, placeFile), &at) // else it is looked for in vain after a move
		}
		return
	}
	dirs, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, d := range dirs {
		old := filepath.Join(base, d.Name())
		if statefile.Read(filepath.Join(old, placeFile), &was) != nil || was.Device != at.Device || was.Inode != at.Inode || b.inStore(was.Private) {
			continue
		}
		var m madeGit
		if statefile.Read(filepath.Join(old, madeFile), &m) == nil {
			m.Private, m.Host, m.Place, m.Common = f.Private, f.Host, f.Place, f.Common
			if statefile.Write(filepath.Join(old, madeFile), &m) != nil {
				return
			}
		}
		if statefile.Write(filepath.Join(old, placeFile), &at) == nil {
			_ = os.Rename(old, state)
		}
		return
	}
}

// inStore reports whether the sandbox has a git directory.
func (b *gitBox) inStore(private string) bool {
	store, err := os.Open(b.store)
	if err != nil {
		return false
	}
	defer store.Close()
	return has(store, private)
}
