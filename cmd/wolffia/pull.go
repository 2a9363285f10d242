package main

import (
	"context"

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

// checkPull returns what is wrong with the value of --pull. engine says that the image is an engine's.
func checkPull(pull string, engine bool) error {
	switch pull {
	case pullMissing:
		return nil
	case pullAlways, pullNever:
		if engine {
			return runtime.Errorf(runtime.ErrUnsupported, "--pull %s: the engine has its own images: use docker pull", pull)
		}
		return nil
	}
	return runtime.Errorf(runtime.ErrInvalid, "--pull %q: it must be %s, %s or %s", pull, pullMissing, pullAlways, pullNever)
}

// haveImage returns an image; public: see [puller.Request]. A name in a registry is pulled as the flag says; files are
// read each time, but for never.
func (a *app) haveImage(ctx context.Context, name, pull string, public bool) (*store.Image, error) {
	images, err := a.images()
	if err != nil {
		return nil, err
	}
	canonical, nameErr := store.Canonical(name)
	if pull == pullNever || pull == pullMissing && (nameErr != nil || !store.Local(canonical)) {
		id, err := images.Find(name)
		var img *store.Image
		if err == nil {
			img, err = images.Get(id)
		}
		switch {
		case err == nil:
			return img, nil
		case pull == pullNever && nameErr == nil:
			return nil, runtime.Errorf(runtime.ErrNotFound, "image %s is not here, and --pull never does not pull it: wolffia image pull %s", name, name)
		}
	}
	if nameErr != nil {
		return nil, nameErr
	}
	id, err := a.pull(ctx, &puller.Request{Name: name, Public: public})
	if err != nil {
		return nil, err
	}
	return images.Get(id)
}
