package reposync

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/internal/git/gitpairs"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/statefile"
)

// madeFile, in the directory of a git directory's base, says that wolffia has made it on the host.
const madeFile = "made.json"

// A made is a git directory of the host that wolffia has made for the sandbox.
type made struct {
	Private string `json:"private"` // in the store
	Host    string `json:"host"`    // absolute
	Place   string `json:"place"`   // the working tree, in the codebase
	Common  string `json:"common,omitempty"`
	Module  bool   `json:"module,omitempty"`
	Inode   uint64 `json:"inode"` // of the git directory
}

// hasMade reports whether wolffia has made the host's half of a git directory.
func (s *sides) hasMade(private string) bool {
	var m made
	return statefile.Read(s.bases(statedir.GitBaseName(private), madeFile), &m) == nil
}

// departed returns what wolffia has made on the host for the sandbox and the sandbox has no more.
func (s *sides) departed() (all []made) {
	dirs, err := os.ReadDir(s.bases())
	if err != nil {
		return nil
	}
	store, err := os.Open(s.store)
	if err != nil {
		return nil
	}
	defer store.Close()
	for _, d := range dirs {
		var m made
		if statefile.Read(s.bases(d.Name(), madeFile), &m) != nil {
			continue
		}
		at := m.Private
		if m.Module { // the git directory stays when the submodule goes
			at = filepath.Join(m.Place, ".git")
		}
		if !has(store, at) && (!m.Module || hasBelow(s.config.CodebasePath, at)) {
			all = append(all, m)
		}
	}
	return all
}

// placeFile, in the directory of a git directory's base, says where it was: the sandbox can move
// the directories that it is in, and the host's half moves with them.
const placeFile = "place.json"

// A place is where a git directory was, and its inode on the host.
type place struct {
	Private string `json:"private"`
	Device  uint64 `json:"device"`
	Inode   uint64 `json:"inode"`
}

// placeOf returns the place of a git directory that the host has; ok is false if it is not there.
func placeOf(f *gitpairs.Pair) (p place, ok bool) {
	var st unix.Stat_t
	if unix.Lstat(f.Host, &st) != nil {
		return place{}, false
	}
	return place{f.Private, st.Dev, st.Ino}, true
}

// follow brings the base of a git directory that was moved, which has none at its new place, to
// that place; and records the place of one that has a base.
func (s *sides) follow(f *gitpairs.Pair) {
	at, ok := placeOf(f)
	if f.Made || !ok {
		return
	}
	base := s.bases()
	state := s.bases(statedir.GitBaseName(f.Private))
	var was place
	if _, err := os.Lstat(state); err == nil {
		if statefile.Read(filepath.Join(state, placeFile), &was) != nil || was != at {
			// else it is looked for in vain after a move
			_ = statefile.Write(filepath.Join(state, placeFile), &at)
		}
		return
	}
	dirs, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, d := range dirs {
		old := filepath.Join(base, d.Name())
		if statefile.Read(filepath.Join(old, placeFile), &was) != nil || was.Device != at.Device ||
			was.Inode != at.Inode || hasBelow(s.store, was.Private) {
			continue
		}
		var m made
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
