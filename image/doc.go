// Package image pulls images into a store: from registries, OCI layouts, archives of
// docker save. It names layouts oci:DIR[:TAG], archives docker-archive:FILE.
//
//	img, err := image.Pull(ctx, store.Open(stateDir), "busybox:1.36", nil)
//
// It is apart from package store, and in a program of its own, wolffia-image,
// because a client of registries takes a millisecond to initialize, which every
// start of wolffia and of a shim would pay.
//
// All that it reads is hostile. What is read into memory is bounded
// (maxDocument); layers are streamed, checked against size and digest of the
// compressed form here, and of the plain form by the store. A registry is spoken
// to over TLS, or over plain HTTP if it is on this host's loopback.
package image

import (
	"context"
	"fmt"
	"io"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"wolffia/image/store"
	"wolffia/runtime"
)

// Options say how to pull. The zero value, and nil, are the default.
type Options struct {
	Limits store.Limits
	// Progress, if it is not nil, is called now and then with the number of
	// compressed bytes that were read, and of those there are. It must not wait.
	Progress func(done, total int64)
}

// Pull gets the image that name means now, for linux on amd64, into the store,
// if it is not there, and records its name. Whether it is there is known once
// its configuration was read: a name that came to mean another image is pulled
// again. Concurrent calls for one image do the work once. If it fails, nothing
// is left but the images there were.
//
// Errors: ErrInvalid, a name that is none, or an image that is damaged;
// ErrNotFound; ErrDenied, the registry wants other credentials than those in
// ~/.docker/config.json; ErrUnsupported; ErrUnavailable, the rest.
func Pull(ctx context.Context, s *store.Store, name string, opts *Options) (*store.Image, error) {
	if opts == nil {
		opts = &Options{}
	}
	canonical, err := store.Canonical(name)
	if err != nil {
		return nil, err
	}
	src, err := open(ctx, canonical, opts)
	if err == nil {
		defer src.close()
		src.As = canonical
		var img *store.Image
		if img, err = s.Add(ctx, &src.Source, opts.Limits); err == nil {
			return img, nil
		}
	}
	return nil, fmt.Errorf("image %s: %w", canonical, err)
}

// A source is what the store takes, and must be closed.
type source struct {
	store.Source
	close func()
}

// open finds an image.
func open(ctx context.Context, canonical string, opts *Options) (*source, error) {
	if file, ok := strings.CutPrefix(canonical, store.ArchivePrefix); ok {
		return openArchive(file, opts.Progress)
	}
	if rest, ok := strings.CutPrefix(canonical, store.LayoutPrefix); ok {
		return openImage(ctx, newLayout(rest), opts.Progress)
	}
	r, err := newRegistry(canonical)
	if err != nil {
		return nil, err
	}
	return openImage(ctx, r, opts.Progress)
}

// An origin has manifests and blobs by digest.
type origin interface {
	// top is the manifest, or index of manifests, that the name means.
	top(ctx context.Context) (raw []byte, mediaType string, err error)
	// manifest is the one that a descriptor in an index names. Nothing of it is
	// checked.
	manifest(ctx context.Context, d v1.Descriptor) ([]byte, error)
	// blob opens what a descriptor names. Nothing of it is checked.
	blob(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error)
	close()
}

// maxDocument bounds manifests, indexes and configurations, in bytes, which are
// read into memory. Registries refuse manifests of more than 4 MiB.
const maxDocument = 8 << 20

// readDocument reads what a descriptor names, and checks it.
func readDocument(what string, d v1.Descriptor, r io.ReadCloser, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if d.Size > maxDocument {
		return nil, runtime.Errorf(runtime.ErrInvalid, "its %s has %d bytes, which may be %d at most", what, d.Size, maxDocument)
	}
	return io.ReadAll(newVerified(what, d.Digest.String(), d.Size, r))
}
