package main

import (
	"context"

	"github.com/spf13/cobra"

	"wolffia/image/puller"
	"wolffia/image/store"
	"wolffia/runtime"
)

// The values of --pull.
const (
	pullMissing = "missing"
	pullAlways  = "always"
	pullNever   = "never"
)

// pullFlags say when an image is pulled.
type pullFlags struct {
	pull   string
	public bool // a request has named the image: see image.Options
}

func (f *pullFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.pull, "pull", pullMissing, "when to pull the image: missing, always or never")
}

// check returns what is wrong with the flag. engine says that the image is an engine's.
func (f *pullFlags) check(engine bool) error {
	switch f.pull {
	case pullMissing:
		return nil
	case pullAlways, pullNever:
		if engine {
			return runtime.Errorf(runtime.ErrUnsupported, "--pull %s: the engine has its own images: use docker pull", f.pull)
		}
		return nil
	}
	return runtime.Errorf(runtime.ErrInvalid, "--pull %q: it must be %s, %s or %s", f.pull, pullMissing, pullAlways, pullNever)
}

// haveImage returns an image. A name in a registry is pulled as the flag says; files are
// read each time, but for never.
func (a *app) haveImage(ctx context.Context, name string, f pullFlags) (*store.Image, error) {
	images, err := a.images()
	if err != nil {
		return nil, err
	}
	canonical, nameErr := store.Canonical(name)
	if f.pull == pullNever || f.pull == pullMissing && (nameErr != nil || !store.Local(canonical)) {
		id, err := images.Find(name)
		var img *store.Image
		if err == nil {
			img, err = images.Get(id)
		}
		switch {
		case err == nil:
			return img, nil
		case f.pull == pullNever && nameErr == nil:
			return nil, runtime.Errorf(runtime.ErrNotFound, "image %s is not here, and --pull never does not pull it: wolffia image pull %s", name, name)
		}
	}
	if nameErr != nil {
		return nil, nameErr
	}
	id, err := a.pull(ctx, &puller.Request{Name: name, Public: f.public})
	if err != nil {
		return nil, err
	}
	return images.Get(id)
}
