package hostdir

import (
	"os"
	"path"
	"slices"
	"syscall"

	"wolffia/internal/config"
)

// workspaces are the names of files whose outermost directory is the project where no directory
// has a repository.
var workspaces = []string{"go.work", "go.mod", "pnpm-workspace.yaml", "package.json", "Cargo.toml"}

// Project returns the directory that a command shows that names none, "." or an absolute path: the
// nearest that is the top of a git working tree or has a configuration file of wolffia's; else the
// outermost with a workspace file, which is then returned too; else the current one. It looks no
// further up than [above] permits.
func Project() (dir, workspace string) {
	here, err := Current()
	if err != nil {
		return ".", ""
	}
	if dir, workspace = search(here, mark, above(here)); dir == here {
		return ".", ""
	}
	return dir, workspace
}

// A kind of directory is what a name in it makes it.
type kind int

const (
	plain   kind = iota
	top          // of a repository, or with a configuration file of wolffia's
	member       // or the top of a workspace
	foreign      // the name belongs to another user
)

// search is Project, from here on. mark returns what a directory is, by which name; may decides
// about a parent directory.
func search(here string, mark func(dir string, uid uint32) (kind, string), may func(dir string) (uid uint32, ok bool)) (dir, workspace string) {
	dir = here
	for at := here; ; at = path.Dir(at) {
		uid, ok := may(at)
		if !ok {
			return dir, workspace
		}
		is, name := mark(at, uid)
		switch {
		case is == top:
			return at, ""
		case is == foreign:
			return here, ""
		case is == member && at != here:
			dir, workspace = at, name
		}
		if at == "/" {
			return dir, workspace
		}
	}
}

// mark returns what a directory is for the user uid.
func mark(dir string, uid uint32) (kind, string) {
	for _, name := range append([]string{".git", config.ProjectName}, workspaces...) {
		st, err := os.Lstat(path.Join(dir, name))
		if err == nil && name == ".git" && !st.Mode().IsRegular() { // git looks for more names in it
			_, err = os.Lstat(path.Join(dir, ".git/HEAD"))
		}
		switch {
		case err != nil:
		case st.Sys().(*syscall.Stat_t).Uid != uid:
			if !slices.Contains(workspaces, name) {
				return foreign, name
			}
		case slices.Contains(workspaces, name):
			return member, name
		default:
			return top, name
		}
	}
	return plain, ""
}

// above returns a function that reports whether the search may look at a directory, and whose
// names count: at here, and at its parents that are on its file system, that the same user owns
// and not all users can write to, and that may be shown by default. git asks for an owner for the
// same reason: who can make a .git above a directory decides what a command in it works on.
func above(here string) func(dir string) (uid uint32, ok bool) {
	var uid uint32
	var device uint64
	var homes []string
	return func(dir string) (uint32, bool) {
		info, err := os.Lstat(dir)
		if err != nil {
			return 0, false
		}
		st := info.Sys().(*syscall.Stat_t)
		if dir == here {
			device = st.Dev
			if uid = uint32(os.Geteuid()); uid == 0 { // its sandbox runs as the owner
				uid = st.Uid
			}
			return st.Uid, true
		}
		if st.Dev != device || st.Uid != uid || st.Mode&0o002 != 0 {
			return 0, false
		}
		if homes == nil {
			homes = Homes(here)
		}
		return uid, NotByDefault(dir, homes) == nil
	}
}
