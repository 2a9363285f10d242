package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/internal/git/gitpairs"
	"wolffia/internal/git/hostgit"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/beneath"
	"wolffia/internal/sys/rmtree"
	"wolffia/internal/sys/statefile"
	"wolffia/internal/sys/step"
)

// departed returns what wolffia has made on the host for the sandbox and the sandbox has no more. b.mu is held.
func (b *gitBox) departed() (all []madeGit) {
	dirs, err := os.ReadDir(b.bases())
	if err != nil {
		return nil
	}
	store, err := os.Open(b.store)
	if err != nil {
		return nil
	}
	defer store.Close()
	for _, d := range dirs {
		var m madeGit
		if statefile.Read(b.bases(d.Name(), madeFile), &m) != nil {
			continue
		}
		at := m.Private
		if m.Module { // the git directory stays when the submodule goes
			at = filepath.Join(m.Place, ".git")
		}
		if !has(store, at) && (!m.Module || b.leadsTo(&m)) {
			all = append(all, m)
		}
	}
	return all
}

// has reports whether dir has a file or directory at a path.
func has(dir *os.File, path string) bool {
	fd, err := beneath.Open(int(dir.Fd()), path, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFCHR // a whiteout
}

// leadsTo reports whether the host has the file that leads to the git directory of a submodule.
func (b *gitBox) leadsTo(m *madeGit) bool {
	root, err := os.Open(b.config.CodebasePath)
	if err != nil {
		return false
	}
	defer root.Close()
	return has(root, filepath.Join(m.Place, ".git"))
}

// depart removes on the host what wolffia has made there and the sandbox has removed, if it is as
// the last synchronisation has left it. b.mu is held.
func (b *gitBox) depart(ctx context.Context, root *os.File) {
	for _, m := range b.departed() {
		if m.Module {
			p := b.newPair(&gitpairs.Pair{Private: m.Private, Host: m.Host, Place: m.Place})
			if err := errors.Join(b.removePlace(&m, root), p.Deactivate(ctx)); err != nil {
				b.stick(m.Place, err)
			}
			continue
		}
		left, err := b.remove(ctx, &m, root)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			// The user was faster, the sandbox has moved it, or it went when a process was killed.
			if err := b.removePlace(&m, root); err != nil {
				b.stick(m.Place, err)
			}
		case err != nil:
			b.stick(fmt.Sprintf("%s, which the sandbox has removed, stays here", m.Host), err)
			continue
		case !left:
			b.say(hostgit.Printable(fmt.Sprintf("%s, which the sandbox has removed, has changes of yours: it stays here",
				m.Host)))
		}
		b.forgetMade(m)
	}
}

// forgetMade removes the record of a git directory that is gone on one side.
func (b *gitBox) forgetMade(m madeGit) {
	if err := rmtree.RemovePath(b.bases(), statedir.GitBaseName(m.Private)); err != nil {
		b.stick(m.Place, err)
	}
}

// remove removes a git directory of the host, the file that leads to it, and its working tree if
// that is gone inside and has nothing else. It reports whether it was as it was left, else it
// stays. What the sandbox has put in its place is not touched.
func (b *gitBox) remove(ctx context.Context, m *madeGit, root *os.File) (left bool, err error) {
	from, err := b.openAbove(m.Host, root)
	if err != nil {
		return false, err
	}
	defer from.Close()
	p := b.newPair(&gitpairs.Pair{Private: m.Private, Host: m.Host, Place: m.Place, Common: m.Common})
	if m.Common != "" { // it is complete at its own place only
		if left, err = p.AsLeft(ctx); err != nil || !left {
			return left, err
		}
	}
	name, own := b.tempName(), filepath.Base(m.Host)
	if err := b.claimTemp(root, gitTemp{Back: m.Host}); err != nil {
		return false, err
	}
	if err := unix.Renameat2(int(from.Fd()), own, int(root.Fd()), name, unix.RENAME_NOREPLACE); err != nil {
		return false, errors.Join(&os.PathError{Op: "remove", Path: m.Host, Err: err}, b.forgetTemp())
	}
	step.Reached("git: moved away")
	// From here on no sandbox can put another one in its place.
	inode, err := inodeOf(root, name)
	if left = err == nil && inode == m.Inode; left && m.Common == "" {
		p.Host = filepath.Join(root.Name(), name)
		left, err = p.AsLeft(ctx)
	}
	if err != nil || !left {
		return left, errors.Join(err, b.settleTemp(root))
	}
	if err := b.recordTemp(gitTemp{}); err != nil {
		return false, errors.Join(err, b.settleTemp(root))
	}
	step.Reached("git: about to go")
	return true, errors.Join(b.dropTemp(root), b.removePlace(m, root))
}

// removePlace removes the file .git of a linked working tree, and the directory of a working tree
// that is gone inside, if it is empty.
func (b *gitBox) removePlace(m *madeGit, root *os.File) error {
	place, err := openDirectory(root, m.Place)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer place.Close()
	to := m.Host
	if m.Module {
		if to, err = filepath.Rel(place.Name(), m.Host); err != nil {
			return err
		}
	}
	if m.Common != "" || m.Module {
		if err := removePointer(place, to); err != nil {
			return err
		}
	}
	for at := m.Place; at != "." && b.gone(at); at = filepath.Dir(at) {
		if err := removeEmpty(root, at); err != nil {
			if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.ENOENT) {
				return nil // something of the user's is in it
			}
			return err
		}
	}
	return nil
}

// removeEmpty removes an empty directory below dir.
func removeEmpty(dir *os.File, path string) error {
	above, err := openDirectory(dir, filepath.Dir(path))
	if err != nil {
		return err
	}
	defer above.Close()
	if err := unix.Unlinkat(int(above.Fd()), filepath.Base(path), unix.AT_REMOVEDIR); err != nil {
		return &os.PathError{Op: "remove", Path: filepath.Join(dir.Name(), path), Err: err}
	}
	return nil
}

// removePointer removes the file .git of a working tree, if it leads to a git directory.
func removePointer(place *os.File, to string) error {
	text, err := beneath.ReadFile(int(place.Fd()), ".git", unix.PathMax+20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if string(text) != pointerText(to) {
		return fmt.Errorf("%s/.git leads elsewhere", place.Name())
	}
	return unix.Unlinkat(int(place.Fd()), ".git", 0)
}

// gone reports whether the sandbox has removed a directory that the host has, or one above it.
func (b *gitBox) gone(place string) bool {
	store, err := os.Open(b.store)
	if err != nil {
		return false
	}
	defer store.Close()
	for at := place; at != "."; at = filepath.Dir(at) {
		fd, err := beneath.Open(int(store.Fd()), at, unix.O_PATH|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		var st unix.Stat_t
		err = unix.Fstat(fd, &st)
		unix.Close(fd)
		return err == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR // a whiteout
	}
	return false
}
