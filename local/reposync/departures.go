package reposync

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
	"wolffia/internal/sys/step"
)

// departures remove the host's halves of what the sandbox has removed.
type departures struct {
	*codebase
	*journal
}

// depart removes on the host what wolffia has made there and the sandbox has removed, if it is as
// the last synchronisation has left it.
func (d *departures) depart(ctx context.Context) {
	for _, m := range d.departed() {
		if m.Module {
			p := d.newPair(&gitpairs.Pair{Private: m.Private, Host: m.Host, Place: m.Place})
			if err := errors.Join(d.removePlace(&m), p.Deactivate(ctx)); err != nil {
				d.stick(m.Place, err)
			}
			continue
		}
		left, err := d.remove(ctx, &m)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			// The user was faster, the sandbox has moved it, or it went when a process was killed.
			if err := d.removePlace(&m); err != nil {
				d.stick(m.Place, err)
			}
		case err != nil:
			d.stick(fmt.Sprintf("%s, which the sandbox has removed, stays here", m.Host), err)
			continue
		case !left:
			d.say(hostgit.Printable(fmt.Sprintf(
				"%s, which the sandbox has removed, has changes of yours: it stays here", m.Host)))
		}
		d.forgetMade(m)
	}
}

// forgetMade removes the record of a git directory that is gone on one side.
func (d *departures) forgetMade(m made) {
	if err := rmtree.RemovePath(d.bases(), statedir.GitBaseName(m.Private)); err != nil {
		d.stick(m.Place, err)
	}
}

// remove removes a git directory of the host, the file that leads to it, and its working tree if
// that is gone inside and has nothing else. It reports whether it was as it was left, else it
// stays. What the sandbox has put in its place is not touched.
func (d *departures) remove(ctx context.Context, m *made) (left bool, err error) {
	from, err := d.openAbove(m.Host)
	if err != nil {
		return false, err
	}
	defer from.Close()
	p := d.newPair(&gitpairs.Pair{Private: m.Private, Host: m.Host, Place: m.Place, Common: m.Common})
	if m.Common != "" { // it is complete at its own place only
		if left, err = p.AsLeft(ctx); err != nil || !left {
			return left, err
		}
	}
	name, own := d.tempName(), filepath.Base(m.Host)
	if err := d.claimTemp(temp{Back: m.Host}); err != nil {
		return false, err
	}
	if err := unix.Renameat2(int(from.Fd()), own, int(d.root.Fd()), name, unix.RENAME_NOREPLACE); err != nil {
		return false, errors.Join(&os.PathError{Op: "remove", Path: m.Host, Err: err}, d.forgetTemp())
	}
	step.Reached("git: moved away")
	// From here on no sandbox can put another one in its place.
	inode, err := inodeOf(d.root, name)
	if left = err == nil && inode == m.Inode; left && m.Common == "" {
		p.Host = filepath.Join(d.root.Name(), name)
		left, err = p.AsLeft(ctx)
	}
	if err != nil || !left {
		return left, errors.Join(err, d.settleTemp())
	}
	if err := d.recordTemp(temp{}); err != nil {
		return false, errors.Join(err, d.settleTemp())
	}
	step.Reached("git: about to go")
	return true, errors.Join(d.dropTemp(), d.removePlace(m))
}

// removePlace removes the file .git of a linked working tree, and the directory of a working tree
// that is gone inside, if it is empty.
func (c *codebase) removePlace(m *made) error {
	place, err := openDirectory(c.root, m.Place)
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
	for at := m.Place; at != "." && c.gone(at); at = filepath.Dir(at) {
		if err := removeEmpty(c.root, at); err != nil {
			if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.ENOENT) {
				return nil // something of the user's is in it
			}
			return err
		}
	}
	return nil
}

// gone reports whether the sandbox has removed a directory that the host has, or one above it.
func (s *sides) gone(place string) bool {
	store, err := os.Open(s.store)
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
