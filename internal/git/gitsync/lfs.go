package gitsync

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"wolffia/internal/git/hostgit"
	"wolffia/internal/sys/beneath"
)

// maxLFS bounds the names below lfs/objects that a sync looks at.
const maxLFS = 1 << 20

// lfs copies the objects of git-lfs that the sandbox has made to the host. Each is named by its
// content.
func (s *run) lfs() error {
	if s.Common != "" || !s.private.has("lfs/objects") {
		return nil
	}
	left := int64(hostgit.MaxPack)
	return s.private.list("lfs/objects", maxLFS, func(dir string, entries []os.DirEntry) error {
		for _, e := range entries {
			name := e.Name()
			if len(name) != 2*sha256.Size || !objectName.MatchString(name) || !e.Type().IsRegular() {
				continue
			}
			to := filepath.Join(s.host.Common(), "lfs/objects", name[:2], name[2:4], name)
			if _, err := os.Lstat(to); err == nil {
				continue
			}
			n, err := s.copyLFS(dir+"/"+name, to, name, left)
			if err != nil {
				return err
			}
			left -= n
		}
		return nil
	})
}

// copyLFS copies one object of at most that many bytes, and returns how many it has.
func (s *run) copyLFS(from, to, name string, most int64) (n int64, err error) {
	src, err := beneath.OpenFile(int(s.private.Fd()), from)
	if err != nil {
		return 0, nil // a link, or it was removed
	}
	defer src.Close()
	tmp := filepath.Join(s.host.Common(), "lfs/tmp", "wolffia-"+s.Name)
	if err := s.host.makeDirs(filepath.Dir(tmp)); err != nil {
		return 0, err
	}
	if err := remove(tmp); err != nil {
		return 0, err // a killed sync's
	}
	dst, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return 0, err
	}
	sum := sha256.New()
	n, err = io.Copy(io.MultiWriter(dst, sum), io.LimitReader(src, most+1))
	if err = errors.Join(err, s.host.Own(dst), dst.Close()); err == nil && n <= most && hex.EncodeToString(sum.Sum(nil)) == name {
		s.moved = true
		if err := s.host.makeDirs(filepath.Dir(to)); err != nil {
			return 0, err
		}
		return n, os.Rename(tmp, to)
	}
	switch {
	case err != nil:
	case n > most:
		s.refused(fmt.Sprintf("LFS object %.12s stays inside", name),
			fmt.Sprintf("it is larger than what one sync takes (%d bytes)", int64(hostgit.MaxPack)))
	default:
		s.stays = append(s.stays, fmt.Sprintf("LFS object %.12s has another content: it stays inside", name))
	}
	return 0, errors.Join(err, os.Remove(tmp))
}

// makeDirs makes a directory of the git directory, and those that it is in.
func (h *host) makeDirs(dir string) error {
	if _, err := os.Lstat(dir); err == nil {
		return nil
	}
	if err := h.makeDirs(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(h.Own(f), f.Close())
}
