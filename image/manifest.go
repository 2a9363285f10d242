package image

import (
	"bytes"
	"context"
	"fmt"
	"io"
	goruntime "runtime"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"wolffia/image/store"
	"wolffia/runtime"
)

// openImage returns the configuration and the layers of the image that from names.
func openImage(ctx context.Context, from origin, progress func(done, total int64)) (_ *source, err error) {
	defer func() {
		if err != nil {
			from.close()
		}
	}()
	raw, mediaType, err := from.top(ctx)
	if err != nil {
		return nil, err
	}
	digest, _, err := v1.SHA256(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	m, err := follow(ctx, from, raw, mediaType)
	if err != nil {
		return nil, err
	}
	r, err := from.blob(ctx, m.Config)
	config, err := readDocument("configuration", m.Config, r, err)
	if err != nil {
		return nil, err
	}
	count := &counter{report: progress}
	for _, d := range m.Layers {
		count.total += d.Size
	}
	src := &source{close: from.close}
	if l, ok := from.(*layout); ok && l.found != "" {
		src.tags = []string{l.found}
	}
	src.ID, src.Config, src.Digest = m.Config.Digest.String(), config, digest.String()
	src.Layer = func(ctx context.Context, n int) (io.ReadCloser, error) {
		if err := enough(n, len(m.Layers)); err != nil {
			return nil, err
		}
		d := m.Layers[n]
		r, err := from.blob(ctx, d)
		if err != nil {
			return nil, err
		}
		return newLayer(newVerified("layer "+store.Short(d.Digest.String()), d.Digest.String(), d.Size, count.reader(r)), func() { _ = r.Close() })
	}
	return src, nil
}

// enough returns an error unless an image with so many layers has layer n.
func enough(n, layers int) error {
	if n >= layers {
		return runtime.Errorf(runtime.ErrInvalid, "the image has only %d layers, and a configuration for more", layers)
	}
	return nil
}

// follow returns the manifest for this platform. An index may name another index.
func follow(ctx context.Context, from origin, raw []byte, mediaType string) (*v1.Manifest, error) {
	const deepest = 4
	for range deepest {
		index, err := v1.ParseIndexManifest(bytes.NewReader(raw))
		isIndex := types.MediaType(mediaType).IsIndex() || mediaType == "" && err == nil && len(index.Manifests) > 0
		if !isIndex {
			return parseManifest(raw)
		}
		if err != nil {
			return nil, runtime.Errorf(runtime.ErrInvalid, "index is damaged: %w", err)
		}
		d, err := choose(index.Manifests)
		if err != nil {
			return nil, err
		}
		m, err := from.manifest(ctx, d)
		if raw, err = readDocument("manifest", d, io.NopCloser(bytes.NewReader(m)), err); err != nil {
			return nil, err
		}
		mediaType = string(d.MediaType)
	}
	return nil, runtime.Errorf(runtime.ErrInvalid, "indexes are nested more than %d deep", deepest)
}

// parseManifest parses a manifest and checks the fields that are used.
func parseManifest(raw []byte) (*v1.Manifest, error) {
	m, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "manifest is damaged: %w", err)
	}
	for _, d := range append([]v1.Descriptor{m.Config}, m.Layers...) {
		if d.Digest.Algorithm != "sha256" || d.Size < 0 {
			return nil, runtime.Errorf(runtime.ErrUnsupported, "manifest has the digest %.100q with %d bytes: only sha256 is supported", d.Digest.String(), d.Size)
		}
	}
	return m, nil
}

// variants are those of an architecture that every processor of it has.
var variants = map[string]string{"amd64": "v1", "arm64": "v8"}

// choose returns the manifest for linux on this architecture, or a single manifest without a
// platform: the configuration names the platform too.
func choose(all []v1.Descriptor) (v1.Descriptor, error) {
	if len(all) == 1 && all[0].Platform == nil {
		return all[0], nil
	}
	i := slices.IndexFunc(all, func(d v1.Descriptor) bool {
		return d.Platform != nil && d.Platform.OS == "linux" && d.Platform.Architecture == goruntime.GOARCH && (d.Platform.Variant == "" || d.Platform.Variant == variants[goruntime.GOARCH])
	})
	if i >= 0 {
		return all[i], nil
	}
	var found []string
	for _, d := range all[:min(len(all), 20)] {
		if d.Platform != nil {
			found = append(found, fmt.Sprintf("%.40s/%.40s", d.Platform.OS, d.Platform.Architecture))
		}
	}
	return v1.Descriptor{}, runtime.Errorf(runtime.ErrUnsupported, "no image for linux/%s, only for %q", goruntime.GOARCH, found)
}

// A counter counts the bytes that are read of an image, for Options.Progress.
type counter struct {
	done, total int64
	report      func(done, total int64)
}

// reader returns r with its bytes counted.
func (c *counter) reader(r io.Reader) io.Reader {
	if c.report == nil {
		return r
	}
	return io.TeeReader(r, c)
}

func (c *counter) Write(b []byte) (int, error) {
	c.done += int64(len(b))
	c.report(c.done, c.total)
	return len(b), nil
}
