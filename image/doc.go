// Package image pulls images into a store: from registries, OCI layouts, archives of
// docker save. It names layouts oci:DIR[:TAG], archives docker-archive:FILE.
//
//	img, err := image.Pull(ctx, store.Open(stateDir), "busybox:1.36", nil)
//
// It is apart from package store, and in a program of its own, wolffia-oci, because the
// registry client takes a millisecond to initialize, which would delay every start of
// wolffia and of a shim.
//
// All its input is hostile. Documents in memory are bounded (maxDocument). Layers are
// streamed; their size and digest are checked here in the compressed form, and by the
// store in the plain form. Connections to a registry use TLS, or plain HTTP if the
// registry is on this host's loopback. With Options.Public they go to public addresses only.
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

// Options are the settings of Pull. The zero value, and nil, mean the defaults.
type Options struct {
	Limits store.Limits // of the unpacked image
	// Progress, if not nil, is called after each read with the number of compressed
	// bytes that were read of all layers, and their total. It must not block.
	Progress func(done, total int64)
	// Public is set for a name that the owner of this host has not chosen. Then Pull connects to
	// public addresses only (network.Forbidden), or to the proxy that the environment names, and
	// an error has nothing of what a registry has written but the status.
	Public bool
	// Login, unless empty, are credentials of the registry in place of the user's: an object of auths
	// in docker's config.json, as JSON.
	Login []byte
	// Import records As in place of the name of the file, or the names that the file has.
	Import bool
	As     string
}

// Pull adds the image that name means now, for linux on this architecture, to the store, unless it
// is there already, and records its name. It always reads the image's configuration, so a name
// that has come to mean another image is pulled again. It is safe for concurrent use: concurrent
// calls for one image unpack it once. After an error the store is as before.
//
// Errors: ErrInvalid, the name is malformed or the image damaged; ErrNotFound; ErrDenied,
// the registry does not accept the credentials; ErrUnsupported,
// the image is for another platform or uses an unknown feature; ErrUnavailable, the rest;
// or that of ctx.
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
		names := []string{canonical}
		if opts.Import {
			names, err = namesFor(src, opts.As)
		}
		var img *store.Image
		if err == nil {
			img, err = add(ctx, s, src, names, opts)
		}
		if err == nil {
			return img, nil
		}
	}
	return nil, fmt.Errorf("image %s: %w", canonical, err)
}

// add adds an image to the store, with names.
func add(ctx context.Context, s *store.Store, src *source, names []string, opts *Options) (*store.Image, error) {
	if len(names) > 0 {
		src.As = names[0]
	}
	img, err := s.Add(ctx, &src.Source, opts.Limits)
	if err == nil && len(names) > 1 {
		err = s.Tag(ctx, img.ID, names[1:])
	}
	return img, err
}

// namesFor returns the canonical names of an image that is imported: the given one, else those that
// the file has. Names that the file has and that are none are left out.
func namesFor(src *source, as string) (names []string, err error) {
	if as != "" {
		name, err := store.Canonical(as)
		return []string{name}, err
	}
	for _, tag := range src.tags {
		if name, err := store.Canonical(tag); err == nil && !store.Local(name) && !strings.Contains(name, "@") {
			names = append(names, name)
		}
	}
	return names, nil
}

// A source is a store.Source that must be closed.
type source struct {
	store.Source
	tags  []string // names that the file has for it: hostile text
	close func()
}

// open opens the image with a canonical name.
func open(ctx context.Context, canonical string, opts *Options) (*source, error) {
	if file, ok := strings.CutPrefix(canonical, store.ArchivePrefix); ok {
		return openArchive(ctx, file, opts.Progress)
	}
	if rest, ok := strings.CutPrefix(canonical, store.LayoutPrefix); ok {
		dir, tag := store.SplitLayout(rest)
		return openImage(ctx, openLayout(dir, tag), opts.Progress)
	}
	r, err := newRegistry(canonical, opts)
	if err != nil {
		return nil, err
	}
	return openImage(ctx, r, opts.Progress)
}

// An origin has manifests and blobs by digest: a registry or a layout.
type origin interface {
	// top returns the manifest, or index of manifests, that the name means.
	top(ctx context.Context) (raw []byte, mediaType string, err error)
	// manifest returns the manifest that a descriptor in an index names, unchecked.
	manifest(ctx context.Context, d v1.Descriptor) ([]byte, error)
	// blob opens the blob that a descriptor names, unchecked.
	blob(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error)
	close()
}

// maxDocument bounds the bytes of manifests, indexes and configurations, which are read
// into memory. Registries refuse manifests of more than 4 MiB.
const maxDocument = 8 << 20

// readDocument reads r, the content that a descriptor names, and checks it. err is that of
// opening r.
func readDocument(what string, d v1.Descriptor, r io.ReadCloser, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if d.Size > maxDocument {
		return nil, runtime.Errorf(runtime.ErrInvalid, "%s has %d bytes: at most %d are allowed", what, d.Size, maxDocument)
	}
	return io.ReadAll(newVerified(what, d.Digest.String(), d.Size, r))
}
