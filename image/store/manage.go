package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/rmtree"
	"wolffia/internal/statedir"
	"wolffia/runtime"
)

// An Entry is an image with what refers to it.
type Entry struct {
	Image
	Names     map[string]Name // canonical; may be empty
	Sandboxes []string        // ids of those that use it
	// Problem says that the image is damaged; then only its id is known.
	Problem string
}

// List returns the images there are, in the order of their ids.
func (s *Store) List() ([]*Entry, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	users, err := s.users()
	if err != nil {
		return nil, err
	}
	all := []*Entry{}
	for _, id := range ids {
		e := &Entry{Image: Image{ID: id}, Names: map[string]Name{}, Sandboxes: users[id]}
		img, err := s.Get(id)
		switch {
		case errors.Is(err, runtime.ErrNotFound):
			continue // deleted meanwhile
		case err != nil:
			e.Problem = err.Error()
		default:
			e.Image = *img
		}
		for name, n := range names {
			if n.ID == id {
				e.Names[name] = n
			}
		}
		all = append(all, e)
	}
	return all, nil
}

// ids lists the images there are, sorted.
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

// users says which sandboxes use which image. If that cannot be told of one
// sandbox it is an error.
func (s *Store) users() (map[string][]string, error) {
	dir, err := statedir.Open(s.state)
	if err != nil {
		return nil, err
	}
	ids, err := dir.IDs()
	if err != nil {
		return nil, err
	}
	users := map[string][]string{}
	for _, id := range ids {
		c, err := dir.Box(id).Config()
		switch {
		case errors.Is(err, runtime.ErrNotFound):
		case err != nil:
			return nil, err
		case c.ImageID != "":
			users[c.ImageID] = append(users[c.ImageID], id)
		}
	}
	return users, nil
}

// Find returns the id of the image that ref means: a name, an id, or the
// beginning of one, with or without sha256:, of at least twelve digits, lest a
// name that is not there be taken for one.
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
	return "", runtime.Errorf(runtime.ErrInvalid, "%q is not unique: %d images begin like it", ref, len(ids))
}

// Remove takes a name away, and deletes the image with its last one; by its id,
// or the beginning of it, all names and the image. ErrConflict: a sandbox uses
// it; nothing was changed.
func (s *Store) Remove(ctx context.Context, ref string) error {
	id, err := s.Find(ref)
	if err != nil {
		return err
	}
	release, err := s.tryLock(id)
	if err != nil {
		return err
	}
	defer release()
	// Somebody else may have taken the name away, or given it to another image.
	if now, err := s.Find(ref); err != nil {
		return err
	} else if now != id {
		return runtime.Errorf(runtime.ErrConflict, "%q is another image by now: try again", ref)
	}
	names, err := s.names()
	if err != nil {
		return err
	}
	var its []string
	for name, n := range names {
		if n.ID == id {
			its = append(its, name)
		}
	}
	if canonical, err := Canonical(ref); err == nil && names[canonical].ID == id && len(its) > 1 {
		return s.changeNames(ctx, func(names map[string]Name) { delete(names, canonical) })
	}
	return s.delete(ctx, id)
}

// delete deletes an image with its names. The caller has its lock alone.
func (s *Store) delete(ctx context.Context, id string) error {
	users, err := s.users()
	if err != nil {
		return err
	}
	if by := users[id]; len(by) > 0 {
		return runtime.Errorf(runtime.ErrConflict, "image %s is used by sandbox %s: wolffia rm that first", Short(id), strings.Join(by, ", "))
	}
	err = s.changeNames(ctx, func(names map[string]Name) {
		for name, n := range names {
			if n.ID == id {
				delete(names, name)
			}
		}
	})
	if err != nil {
		return err
	}
	// It is gone at once, or a part of it would look like the whole.
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

// Prune deletes images that have no name and that no sandbox uses, with all
// those that have one too, and what pulls and deletions that were killed have
// left. What is in use just now is passed over. It returns what it has deleted.
func (s *Store) Prune(ctx context.Context, all bool) ([]*Entry, error) {
	deleted := []*Entry{}
	if err := s.sweep(); err != nil {
		return deleted, err
	}
	entries, err := s.List()
	if err != nil {
		return deleted, err
	}
	var errs []error
	for _, e := range entries {
		if len(e.Sandboxes) > 0 || len(e.Names) > 0 && !all {
			continue
		}
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

// pruneOne deletes an image that, once it is locked, still has no name.
func (s *Store) pruneOne(ctx context.Context, id string, all bool) error {
	release, err := s.tryLock(id)
	if err != nil {
		return err
	}
	defer release()
	names, err := s.names()
	if err != nil {
		return err
	}
	for _, n := range names {
		if n.ID == id && !all {
			return runtime.Errorf(runtime.ErrConflict, "image %s has a name by now", Short(id))
		}
	}
	return s.delete(ctx, id)
}

// sweep deletes what those who were killed have left.
func (s *Store) sweep() error {
	entries, err := os.ReadDir(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return storeError(err)
	}
	for _, e := range entries {
		digits, ok := strings.CutSuffix(e.Name(), coming)
		if !ok {
			digits, ok = strings.CutSuffix(e.Name(), going)
		}
		if !ok || !IsID(algorithm+digits) {
			continue
		}
		release, err := s.tryLock(algorithm + digits)
		if errors.Is(err, runtime.ErrConflict) {
			continue // it is being made, or deleted
		}
		if err != nil {
			return err
		}
		err = rmtree.RemovePath(s.path, e.Name())
		release()
		if err != nil {
			return storeError(err)
		}
	}
	return nil
}

// MountTree returns a descriptor of a mount of the image's tree, read-only and
// attached nowhere, in which root's files belong to the one user of the user
// namespace that ns is open on (mount_setattr(2)). So a sandbox that root starts
// has a tree of its own, and nobody but root can change the image. The caller
// closes it.
func (s *Store) MountTree(id string, ns *os.File) (*os.File, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, s.Rootfs(id), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "mount image %s: %w", Short(id), err)
	}
	f := os.NewFile(uintptr(fd), "image")
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{
		Attr_set:  unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
		Userns_fd: uint64(ns.Fd()),
	})
	if err != nil {
		_ = f.Close()
		return nil, runtime.Errorf(runtime.ErrUnsupported, "show root's image to another user: %w; it needs Linux 5.19 and a file system with idmapped mounts (mount_setattr(2)), or run wolffia as that user", err)
	}
	return f, nil
}
