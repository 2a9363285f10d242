package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/rmtree"
	"wolffia/internal/sys/statefile"
	"wolffia/internal/sys/step"
	"wolffia/runtime"
)

// A Source is an image to add. All its content is hostile.
type Source struct {
	ID     string // "sha256:" and the digest of Config
	Config []byte // the configuration file
	// Layer opens layer n, of which 0 is the lowest, as an uncompressed tar archive. It
	// is called in order, for one layer at a time.
	Layer func(ctx context.Context, n int) (io.ReadCloser, error)
	// As is the canonical name to record, or "", and Digest the digest of the manifest
	// that the name meant, or "".
	As, Digest string
}

// Add unpacks an image, if it is not in the store, and records its name. Of several concurrent
// calls for one image by one name (As), in any process, one does the work and the others wait.
// Calls by other names do not: a source of the same image that is slow delays no other call. After
// an error the store is as before. Errors: ErrInvalid, the image is damaged or beyond lim;
// ErrUnsupported, it is for another platform; ErrUnavailable; or that of ctx.
func (s *Store) Add(ctx context.Context, src *Source, lim Limits) (*Image, error) {
	lim = lim.withDefaults()
	if id := IDOf(src.Config); src.ID != id {
		return nil, invalid("configuration is damaged: its digest is %s, want %.100s", id, src.ID)
	}
	desc, err := describe(src.Config, lim)
	if err != nil {
		return nil, err
	}
	if err := s.ensure(); err != nil {
		return nil, err
	}
	place := placeOf(src)
	release, err := s.lock(ctx, unix.F_WRLCK, placeOffset(place))
	if err != nil {
		return nil, err
	}
	defer release()
	names := map[string]Name{}
	if src.As != "" {
		names[src.As] = Name{ID: src.ID, Digest: src.Digest}
	}
	img, err := s.publish(ctx, src.ID, "", names)
	if errors.Is(err, runtime.ErrNotFound) {
		if err = s.unpack(ctx, src, place, desc, lim); err == nil {
			img, err = s.publish(ctx, src.ID, place, names)
			// another source was faster
			err = errors.Join(err, storeError(rmtree.RemovePath(s.path, place)))
		}
	}
	return img, err
}

// placeOf returns the name of the directory in which an image from src is unpacked: HEX.PLACE.new.
// It is of the image and of the name that is pulled.
func placeOf(src *Source) string {
	sum := sha256.Sum256([]byte(src.As))
	return hexOf(src.ID) + "." + hex.EncodeToString(sum[:8]) + coming
}

// ensure makes the store's directory.
func (s *Store) ensure() error {
	if err := statedir.EnsureDir(s.path, 0o700, 0o077); err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "image store %s: %w", s.path, err)
	}
	return nil
}

// publish gives an image names, and returns it. If it is not there, the directory called place
// becomes it; without a place it is ErrNotFound.
func (s *Store) publish(ctx context.Context, id, place string, names map[string]Name) (*Image, error) {
	release, err := s.lock(ctx, unix.F_WRLCK, offset(id))
	if err != nil {
		return nil, err
	}
	defer release()
	img, err := s.Get(id)
	if errors.Is(err, runtime.ErrNotFound) && place != "" {
		err = os.Rename(filepath.Join(s.path, place), filepath.Join(s.path, hexOf(id)))
		if err == nil {
			err = statefile.Sync(s.path)
		}
		if err != nil {
			return nil, storeError(err)
		}
		step.Reached("image: added")
		img, err = s.Get(id)
	}
	if err != nil || len(names) == 0 {
		return img, err
	}
	return img, s.addNames(ctx, names)
}

// addNames records names as of now.
func (s *Store) addNames(ctx context.Context, names map[string]Name) error {
	return s.changeNames(ctx, func(all map[string]Name) {
		for name, n := range names {
			n.PulledAt = time.Now().UnixMilli()
			all[name] = n
		}
	})
}

// changeNames replaces names.json.
func (s *Store) changeNames(ctx context.Context, change func(map[string]Name)) error {
	release, err := s.lock(ctx, unix.F_WRLCK, namesByte)
	if err != nil {
		return err
	}
	defer release()
	names, err := s.names()
	if err != nil {
		return err
	}
	change(names)
	return storeError(statefile.WriteSync(filepath.Join(s.path, namesFile), names))
}

// unpack makes the directory name, with all of an image on the disk. The caller holds the lock of
// that place.
func (s *Store) unpack(ctx context.Context, src *Source, name string, desc *description, lim Limits) (err error) {
	if err := rmtree.RemovePath(s.path, name); err != nil { // of a process that was killed
		return storeError(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(storeError(err), rmtree.RemovePath(s.path, name))
		}
	}()
	dir := filepath.Join(s.path, name)
	root := filepath.Join(dir, rootfsDir)
	for path, mode := range map[string]fs.FileMode{dir: 0o700, root: 0o755} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return err
		}
		if err := os.Chmod(path, mode); err != nil {
			return err
		}
	}
	t, err := openTree(root)
	if err != nil {
		return err
	}
	defer t.Close()
	u := newUnpacker(t, lim)
	left := lim.Size
	for n, id := range desc.RootFS.DiffIDs {
		used, err := unpackLayer(ctx, u, src, n, id, left)
		if err != nil {
			return fmt.Errorf("layer %d of %d (%s): %w", n+1, len(desc.RootFS.DiffIDs), Short(id), err)
		}
		left -= used
	}
	img := &Image{
		ID: src.ID, Layers: desc.RootFS.DiffIDs, Config: desc.Config, Created: desc.Created,
		Size: u.size, Files: u.files, Skipped: u.skipped,
	}
	if err := u.writeOwners(dir); err != nil {
		return err
	}
	return describeIn(dir, img, src.Config)
}

// describeIn writes an image's descriptions to its directory, and all in that to the disk: an
// image is never checked again once it has its name.
func describeIn(dir string, img *Image, config []byte) error {
	if err := os.WriteFile(filepath.Join(dir, configFile), config, 0o600); err != nil {
		return err
	}
	if err := statefile.WriteSync(filepath.Join(dir, imageFile), img); err != nil {
		return err
	}
	return syncFS(dir)
}

// syncFS writes the file system of a directory to the disk: one syncfs(2) is faster than an
// fsync(2) for each file.
func syncFS(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

// unpackLayer applies one layer of at most limit bytes, and returns its size. It reads the
// layer to its end, for the digest.
func unpackLayer(ctx context.Context, u *unpacker, src *Source, n int, id string, limit int64) (int64, error) {
	r, err := src.Layer(ctx, n)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	in := &layerReader{ctx: ctx, r: r, left: limit, sum: sha256.New()}
	if err = u.layer(in); err == nil {
		// io.Discard has a small buffer of its own
		_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, in, u.buf)
	}
	if in.err != nil {
		err = in.err // clearer than the tar reader's
	}
	if err != nil {
		return 0, err
	}
	if got := algorithm + hex.EncodeToString(in.sum.Sum(nil)); got != id {
		return 0, invalid("damaged: the digest is %s, want %s", got, id)
	}
	return limit - in.left, nil
}

// A layerReader reads a layer, up to a limit, and computes its digest.
type layerReader struct {
	ctx  context.Context // of the one call that made it
	r    io.Reader
	left int64
	sum  hash.Hash
	err  error // of reading
}

func (l *layerReader) Read(b []byte) (int, error) {
	if err := l.ctx.Err(); err != nil {
		l.err = err
		return 0, err
	}
	n, err := l.r.Read(b)
	l.sum.Write(b[:n])
	if l.left -= int64(n); l.left < 0 {
		l.err = tooLarge("the uncompressed layers exceed the allowed size")
		return 0, l.err
	}
	if err != nil && !errors.Is(err, io.EOF) {
		l.err = err
	}
	return n, err
}

// storeError gives an error of the file system its class.
func storeError(err error) error {
	switch {
	case err == nil || runtime.Class(err) != nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT):
		return runtime.Errorf(runtime.ErrUnavailable, "the disk of the image store is full: %w; wolffia image prune makes room, --state-dir chooses another disk", err)
	}
	return runtime.Errorf(runtime.ErrUnavailable, "image store: %w", err)
}
