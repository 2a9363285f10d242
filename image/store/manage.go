package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/rmtree"
	"wolffia/runtime"
)

// An Entry is an image with its names and users.
type Entry struct {
	Image
	Names     map[string]Name // canonical; may be empty
	Sandboxes []string        // ids of the sandboxes that use it
	Children  []string        // ids of the images whose parent it is
	// Problem is why the image is damaged; then only the id of Image is set.
	Problem string
}

// List returns all images, sorted by id. With an error it returns them too if only the configuration
// of a sandbox cannot be read: the images that it uses do not name it.
func (s *Store) List() ([]*Entry, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	children, err := s.children()
	if err != nil {
		return nil, err
	}
	users, usersErr := s.users()
	all := []*Entry{}
	for _, id := range ids {
		e := &Entry{Image: Image{ID: id}, Names: namesOf(id, names), Sandboxes: users[id], Children: children[id]}
		img, err := s.Get(id)
		switch {
		case errors.Is(err, runtime.ErrNotFound):
			continue // deleted meanwhile
		case err != nil:
			e.Problem = err.Error()
		default:
			e.Image = *img
		}
		all = append(all, e)
	}
	return all, usersErr
}

// ids returns the ids of all images, sorted.
func (s *Store) ids() ([]string, error) {
	entries, err := os.ReadDir(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, storeError(err)
	}
	var ids []string
	for _, e := range entries {
		if id := algorithm + e.Name(); IsID(id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// NamesOf returns the canonical names of an image. It need not exist.
func (s *Store) NamesOf(id string) (map[string]Name, error) {
	names, err := s.names()
	return namesOf(id, names), err
}

// users returns the ids of the sandboxes that use each image. A sandbox whose configuration
// cannot be read is an error, beside the others.
func (s *Store) users() (map[string][]string, error) {
	dir, err := statedir.Open(s.state)
	if err != nil {
		return nil, err
	}
	users := map[string][]string{}
	err = dir.Each(func(c *statedir.Config) {
		if id := cmp.Or(c.ImageID, c.SystemID); id != "" {
			users[id] = append(users[id], c.ID)
		}
	})
	if err != nil {
		err = runtime.Errorf(runtime.ErrUnavailable, "not all images that sandboxes use are known: %w", err)
	}
	return users, err
}

// Find returns the id of the image that ref means: a name, an id, or the beginning of an
// id with at least twelve digits, with or without sha256:. ErrNotFound, ErrInvalid: no
// image, or several.
func (s *Store) Find(ref string) (string, error) {
	names, err := s.names()
	if err != nil {
		return "", err
	}
	canonical, err := Canonical(ref)
	if n, ok := names[canonical]; err == nil && ok {
		return n.ID, nil
	}
	digits := hexOf(ref)
	if len(digits) < shortest || strings.Trim(digits, "0123456789abcdef") != "" {
		if err == nil {
			err = missing(ref)
		}
		return "", err
	}
	ids, err := s.ids()
	if err != nil {
		return "", err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return !strings.HasPrefix(hexOf(id), digits) })
	switch len(ids) {
	case 0:
		return "", missing(ref)
	case 1:
		return ids[0], nil
	}
	return "", runtime.Errorf(runtime.ErrInvalid, "%q is the beginning of %d ids", ref, len(ids))
}

// Remove removes the name ref, and deletes the image with its last name, unless it is the parent
// of another one. If ref is an id, or the beginning of one, it deletes the image with all names.
// ErrConflict: a sandbox, another image or another process uses the image; nothing was changed.
// ErrNotFound: no such image.
func (s *Store) Remove(ctx context.Context, ref string) error {
	id, err := s.Find(ref)
	if err != nil {
		return err
	}
	release, err := s.try(id, offset(id))
	if err != nil {
		return err
	}
	defer release()
	// Another process may have removed the name, or given it to another image.
	if now, err := s.Find(ref); err != nil {
		return err
	} else if now != id {
		return runtime.Errorf(runtime.ErrConflict, "%q now means another image: try again", ref)
	}
	names, err := s.names()
	if err != nil {
		return err
	}
	children, err := s.children()
	if err != nil {
		return err
	}
	if canonical, err := Canonical(ref); err == nil && names[canonical].ID == id && len(namesOf(id, names))+len(children[id]) > 1 {
		return s.changeNames(ctx, func(names map[string]Name) { delete(names, canonical) })
	}
	return s.delete(ctx, id)
}

// delete deletes an image with its names. The caller holds its exclusive lock.
func (s *Store) delete(ctx context.Context, id string) error {
	users, err := s.users()
	if err != nil {
		return fmt.Errorf("image %s was not deleted: %w", Short(id), err)
	}
	if by := users[id]; len(by) > 0 {
		return runtime.Errorf(runtime.ErrConflict, "image %s is used by sandbox %s: remove it first, with wolffia rm", Short(id), strings.Join(by, ", "))
	}
	children, err := s.children()
	if err != nil {
		return err
	}
	if above := children[id]; len(above) > 0 {
		return runtime.Errorf(runtime.ErrConflict, "image %s is the parent of image %s: remove that first, with wolffia image rm", Short(id), Short(above[0]))
	}
	err = s.changeNames(ctx, func(names map[string]Name) {
		maps.DeleteFunc(names, func(_ string, n Name) bool { return n.ID == id })
	})
	if err != nil {
		return err
	}
	// By rename first: a part of the tree must never look like the image.
	dir := hexOf(id)
	if err := rmtree.RemovePath(s.path, dir+going); err != nil {
		return storeError(err)
	}
	err = os.Rename(filepath.Join(s.path, dir), filepath.Join(s.path, dir+going))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return storeError(err)
	}
	return storeError(rmtree.RemovePath(s.path, dir+going))
}

// Prune deletes the images without a name that no sandbox uses and no image that stays has as a
// parent, and with all also those with a name; and what interrupted pulls, builds and deletions
// have left. It skips images that another process uses. It returns the images that it has
// deleted, also with an error.
func (s *Store) Prune(ctx context.Context, all bool) ([]*Entry, error) {
	if err := s.Sweep(); err != nil {
		return []*Entry{}, err
	}
	entries, err := s.List()
	if err != nil {
		return []*Entry{}, fmt.Errorf("no image was deleted: %w", err)
	}
	return s.prune(ctx, prunable(entries, all), all)
}

// prune deletes images, but for those that are in use, or have a name and all is not set.
func (s *Store) prune(ctx context.Context, doomed []*Entry, all bool) ([]*Entry, error) {
	deleted, errs := []*Entry{}, []error(nil)
	for _, e := range doomed {
		err := s.pruneOne(ctx, e.ID, all)
		switch {
		case err == nil:
			deleted = append(deleted, e)
		case !errors.Is(err, runtime.ErrConflict):
			errs = append(errs, err)
		}
	}
	return deleted, errors.Join(errs...)
}

// prunable returns the images to delete, children before their parents.
func prunable(entries []*Entry, all bool) (doomed []*Entry) {
	left := map[string]int{} // children that stay
	byID := map[string]*Entry{}
	for _, e := range entries {
		left[e.ID], byID[e.ID] = len(e.Children), e
	}
	for _, e := range entries {
		for e != nil && left[e.ID] == 0 && len(e.Sandboxes) == 0 && (all || len(e.Names) == 0) {
			doomed = append(doomed, e)
			left[e.ID]-- // once
			left[e.Parent]--
			e = byID[e.Parent]
		}
	}
	return doomed
}

// pruneOne locks and deletes an image. ErrConflict: it now has a name, or is in use.
func (s *Store) pruneOne(ctx context.Context, id string, all bool) error {
	release, err := s.try(id, offset(id))
	if err != nil {
		return err
	}
	defer release()
	names, err := s.names()
	if err != nil {
		return err
	}
	if len(namesOf(id, names)) > 0 && !all {
		return runtime.Errorf(runtime.ErrConflict, "image %s now has a name", Short(id))
	}
	return s.delete(ctx, id)
}

// Sweep deletes what killed processes have left.
func (s *Store) Sweep() error {
	entries, err := os.ReadDir(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return storeError(err)
	}
	for _, e := range entries {
		digits, rest, _ := strings.Cut(e.Name(), ".")
		id, at := algorithm+digits, int64(0)
		switch {
		case !IsID(id):
			continue
		case "."+rest == going:
			at = offset(id)
		case strings.HasSuffix(rest, coming), "."+rest == coming: // the latter of an earlier version
			at = placeOffset(e.Name())
		default:
			continue
		}
		release, err := s.try(id, at)
		if errors.Is(err, runtime.ErrConflict) {
			continue // being made or deleted
		}
		if err != nil {
			return err
		}
		err = s.remove(e.Name())
		release()
		if err != nil {
			return err
		}
	}
	return nil
}

// MountTree returns a descriptor of a detached, read-only mount of a directory of Lowers, in
// which root's files belong to the one user of the user namespace that ns refers to
// (mount_setattr(2)). So sandboxes that root starts for other users share a tree that only
// root can change. The caller closes the descriptor. ErrUnsupported: the kernel or the
// file system has no idmapped mounts.
func MountTree(dir string, ns *os.File) (*os.File, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "mount image %s: %w", dir, err)
	}
	f := os.NewFile(uintptr(fd), "image")
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{
		Attr_set:  unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
		Userns_fd: uint64(ns.Fd()),
	})
	if err != nil {
		_ = f.Close()
		return nil, runtime.Errorf(runtime.ErrUnsupported, "map root's image to another user: %w; this needs Linux 5.19 and a file system with idmapped mounts (mount_setattr(2)); or run wolffia as that user", err)
	}
	return f, nil
}
