package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"

	"wolffia/internal/host/boot"
	"wolffia/runtime"
)

// Image finds the configured image, and pulls it if the engine does not have it. step
// reports progress.
func (e *Engine) Image(ctx context.Context, step func(string)) (*boot.ImageInfo, error) {
	name := cmp.Or(e.config.ImageID, e.config.Image)
	if _, err := reference.ParseAnyReference(name); err != nil { // not all engines check it
		return nil, runtime.Errorf(runtime.ErrInvalid, "image %s: %w", name, err)
	}
	if err := e.ping(ctx); err != nil {
		return nil, err
	}
	image, err := e.client.ImageInspect(ctx, name)
	if errdefs.IsNotFound(err) && e.config.ImageID != "" {
		return nil, runtime.Errorf(runtime.ErrNotFound, "image %s is not in the engine", name)
	}
	if errdefs.IsNotFound(err) {
		if err := e.pull(ctx, step); err != nil {
			return nil, err
		}
		image, err = e.client.ImageInspect(ctx, name)
	}
	if errdefs.IsInvalidArgument(err) {
		return nil, runtime.Errorf(runtime.ErrInvalid, "image %s: %w", name, err)
	}
	if err != nil {
		return nil, e.explain("look for image "+name, err)
	}
	if image.Os != "" && image.Os != "linux" {
		return nil, runtime.Errorf(runtime.ErrInvalid, "image %s is for %s", name, image.Os)
	}
	found := &boot.ImageInfo{ID: image.ID}
	if !strings.HasPrefix(found.ID, "sha256:") { // Podman omits the algorithm
		found.ID = "sha256:" + found.ID
	}
	if image.Config != nil {
		found.Env, found.Cwd = image.Config.Env, image.Config.WorkingDir
		found.Command = slices.Concat(image.Config.Entrypoint, image.Config.Cmd)
	}
	return found, nil
}

// every is the time between reports on a download.
const every = 500 * time.Millisecond

func (e *Engine) pull(ctx context.Context, step func(string)) error {
	name := e.config.Image
	step("pull " + name)
	failed := func(err error) error {
		if client.IsErrConnectionFailed(err) {
			return e.explain("pull "+name, err)
		}
		return runtime.Errorf(runtime.ErrNotFound, "image %s: the engine does not have it, and cannot pull it: %w", name, err)
	}
	answer, err := e.client.ImagePull(ctx, name, client.ImagePullOptions{})
	if err != nil {
		return failed(err)
	}
	defer answer.Close()
	reported := time.Now()
	layers := map[string]jsonstream.Progress{}
	for m, err := range answer.JSONMessages(ctx) {
		switch {
		case err != nil:
			return failed(err)
		case m.Error != nil:
			return failed(errors.New(m.Error.Message))
		case m.Progress != nil && m.Status == "Downloading":
			layers[m.ID] = *m.Progress
		}
		if time.Since(reported) > every {
			reported = time.Now()
			step("pull " + name + ": " + progress(layers))
		}
	}
	return nil
}

// progress formats the state of the downloads of an image's layers.
func progress(layers map[string]jsonstream.Progress) string {
	var done, total int64 // bytes; total 0 is not known
	for _, p := range layers {
		done, total = done+p.Current, total+p.Total
	}
	text := fmt.Sprintf("%.1f MB", float64(done)/1e6)
	if total > 0 {
		text += fmt.Sprintf(" of %.1f MB", float64(total)/1e6)
	}
	return text
}
