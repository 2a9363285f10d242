package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/filelock"
	"wolffia/runtime"
)

// docs/state.md has the bytes of the lock file. Images that share one, of their digests,
// only wait for each other. No lock needs cleaning up.

// offset returns the byte of an image.
func offset(id string) int64 {
	b, err := hex.DecodeString(hexOf(id)[:16])
	if err != nil {
		return 1 // not an id: callers check that
	}
	return int64(binary.BigEndian.Uint64(b)>>2) | 1 // below 2^62, not 0
}

// placeOffset returns the byte of a directory in which an image is unpacked. It is taken before
// that of the image.
func placeOffset(name string) int64 {
	sum := sha256.Sum256([]byte(name))
	return int64(binary.BigEndian.Uint64(sum[:])>>2) | 1<<62 // above all offsets
}

const namesByte = 0

// pinLimit bounds the wait for a process that deletes an existing image, or checks
// whether it has to be made.
const pinLimit = time.Minute

func (s *Store) openLock() (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(s.path, lockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "lock the image store: %w", err)
	}
	return f, nil
}

// lock waits for the lock of a byte. release unlocks it.
func (s *Store) lock(ctx context.Context, kind int16, at int64) (release func(), err error) {
	f, err := s.openLock()
	if err != nil {
		return nil, err
	}
	if release, err = filelock.Wait(ctx, f, kind, at, 1); err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "another process uses the image store: %w", err)
	}
	return release, nil
}

// try locks the byte at, of an image, exclusively. ErrConflict: another process has it.
func (s *Store) try(id string, at int64) (release func(), err error) {
	f, err := s.openLock()
	if err != nil {
		return nil, err
	}
	release, err = filelock.Try(f, at, 1)
	switch {
	case errors.Is(err, filelock.ErrHeld):
		return nil, runtime.Errorf(runtime.ErrConflict, "image %s is in use by another process", Short(id))
	case err != nil:
		return nil, runtime.Errorf(runtime.ErrUnavailable, "lock the image store: %w", err)
	}
	return release, nil
}

// Pin returns an image and keeps it from being deleted until release is called. A caller
// that creates a sandbox on it records that before it calls release. ErrNotFound: the
// image is not in the store.
func (s *Store) Pin(ctx context.Context, id string) (_ *Image, release func(), err error) {
	if !IsID(id) {
		return nil, nil, runtime.Errorf(runtime.ErrInvalid, "image id %q: want sha256: and 64 digits", id)
	}
	if _, err := os.Lstat(s.path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, missing(id)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, pinLimit, errors.New("it did not finish in time"))
	defer cancel()
	release, err = s.lock(ctx, unix.F_RDLCK, offset(id))
	if err != nil {
		return nil, nil, err
	}
	img, err := s.Get(id)
	if err != nil {
		release()
		return nil, nil, err
	}
	return img, release, nil
}
