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

	"golang.org/x/sys/unix"

	"wolffia/internal/rmtree"
	"wolffia/internal/statefile"
	"wolffia/runtime"
)

// A Source is an image somewhere else, with all of it hostile.
type Source struct {
	ID     string // sha256: of Config
	Config []byte // the configuration file
	// Layer opens layer n, the lowest being 0, as a tar archive that is not
	// compressed. It is called in order, for one layer at a time.
	Layer func(ctx context.Context, n int) (io.ReadCloser, error)
	// As is the canonical name to record, or empty, and Digest that of the
	// manifest it stood for, or empty.
	As, Digest string
}

// Add unpacks an image, if it is not there, and records its name. Of several
// who add the same one, in whatever process, one does the work and the others
// wait for it. If it fails nothing is left but the images there were.
func (s *Store) Add(ctx context.Context, src *Source, lim Limits) (*Image, error) {
	lim = lim.withDefaults()
	if sum := sha256.Sum256(src.Config); src.ID != algorithm+hex.EncodeToString(sum[:]) {
		return nil, invalid("its configuration is damaged: its digest is sha256:%x, not %.100s", sum, src.ID)
	}
	desc, err := describe(src.Config, lim)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	release, err := s.lock(ctx, unix.F_WRLCK, offset(src.ID))
	if err != nil {
		return nil, err
	}
	defer release()
	img, err := s.Get(src.ID)
	if errors.Is(err, runtime.ErrNotFound) {
		if err = s.unpack(ctx, src, desc, lim); err == nil {
			img, err = s.Get(src.ID)
		}
	}
	if err != nil || src.As == "" {
		return img, err
	}
	name := Name{ID: src.ID, Digest: src.Digest, PulledAt: now()}
	return img, s.changeNames(ctx, func(names map[string]Name) { names[src.As] = name })
}

// changeNames changes names.json.
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
	if err := statefile.WriteSync(filepath.Join(s.path, namesFile), names); err != nil {
		return storeError(err)
	}
	return nil
}

// unpack makes HEX. The caller has the image's lock.
func (s *Store) unpack(ctx context.Context, src *Source, desc *description, lim Limits) (err error) {
	name := hexOf(src.ID) + coming
	if err := rmtree.RemovePath(s.path, name); err != nil { // of somebody who was killed
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
	if err := statefile.WriteSync(filepath.Join(dir, imageFile), img); err != nil {
		return err
	}
	// All of it must be on the disk before it has its name: an image is never
	// looked at again. One call for the whole file system is faster than one for
	// each file (syncfs(2)).
	if err := unix.Syncfs(int(t.root.Fd())); err != nil {
		return fmt.Errorf("write it to the disk: %w", err)
	}
	if err := os.Rename(dir, filepath.Join(s.path, hexOf(src.ID))); err != nil {
		return err
	}
	return statefile.Sync(s.path)
}

// unpackLayer applies one layer of at most limit bytes, and returns how many it
// had. It is read to its end, so that its digest can be told.
func unpackLayer(ctx context.Context, u *unpacker, src *Source, n int, id string, limit int64) (int64, error) {
	r, err := src.Layer(ctx, n)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	in := &layerReader{ctx: ctx, r: r, left: limit, sum: sha256.New()}
	if err = u.layer(in); err == nil {
		_, err = io.CopyBuffer(onlyWriter{io.Discard}, in, u.buf)
	}
	if in.err != nil {
		err = in.err // says more than what the tar reader makes of it
	}
	if err != nil {
		return 0, err
	}
	if got := algorithm + hex.EncodeToString(in.sum.Sum(nil)); got != id {
		return 0, invalid("it is damaged or not what it claims to be: its digest is %s, not %s", got, id)
	}
	return limit - in.left, nil
}

// An onlyWriter is a writer without other methods: io.Discard has a buffer of
// its own, which is small.
type onlyWriter struct{ io.Writer }

// A layerReader is the bytes of a layer, counted and summed up.
type layerReader struct {
	ctx  context.Context //nolint:containedctx // of the one call that made it
	r    io.Reader
	left int64
	sum  hash.Hash
	err  error // why reading failed
}

func (l *layerReader) Read(b []byte) (int, error) {
	if err := l.ctx.Err(); err != nil {
		l.err = err
		return 0, err
	}
	n, err := l.r.Read(b)
	l.sum.Write(b[:n])
	if l.left -= int64(n); l.left < 0 {
		l.err = tooLarge("its layers have more bytes than are allowed, uncompressed")
		return 0, l.err
	}
	if err != nil && !errors.Is(err, io.EOF) {
		l.err = err
	}
	return n, err
}

// storeError classes what the file system says.
func storeError(err error) error {
	switch {
	case err == nil || runtime.Class(err) != nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT):
		return runtime.Errorf(runtime.ErrUnavailable, "the disk with the image store is full: %w; wolffia image prune makes room, --state-dir chooses another place", err)
	}
	return runtime.Errorf(runtime.ErrUnavailable, "image store: %w", err)
}
