package host

import (
	"context"

	"wolffia/image/puller"
	"wolffia/image/store"
	"wolffia/runtime"
)

// The values of --pull.
const (
	PullMissing = "missing"
	PullAlways  = "always"
	PullNever   = "never"
)

// CheckPull returns what is wrong with the value of --pull. engine says that the image is an
// engine's.
func CheckPull(pull string, engine bool) error {
	switch pull {
	case PullMissing:
		return nil
	case PullAlways, PullNever:
		if engine {
			return runtime.Errorf(runtime.ErrUnsupported, "--pull %s: the engine has its own images: use docker pull", pull)
		}
		return nil
	}
	return runtime.Errorf(runtime.ErrInvalid, "--pull %q: it must be %s, %s or %s", pull, PullMissing, PullAlways, PullNever)
}

// Pull gets an image, with a progress bar if there is a terminal.
func (h *Host) Pull(ctx context.Context, req *puller.Request) (string, error) {
	rt, err := h.Open("")
	if err != nil {
		return "", err
	}
	program, err := Program(rt, puller.Program)
	if err != nil {
		return "", err
	}
	defer program.Close()
	req.StateDir = rt.StateDir()
	if h.Err.IsTerminal() && !h.Quiet {
		req.Terminal = h.Err.File
	}
	return puller.Pull(ctx, program.ExecPath(), req)
}

// HaveImage returns an image; public and login: see [puller.Request]. A name in a registry is pulled as the
// flag says; files are read each time, but for never.
func (h *Host) HaveImage(ctx context.Context, name, pull string, public bool, login []byte) (*store.Image, error) {
	rt, err := h.Open("")
	if err != nil {
		return nil, err
	}
	images := store.Open(rt.StateDir())
	canonical, nameErr := store.Canonical(name)
	if pull == PullNever || pull == PullMissing && (nameErr != nil || !store.Local(canonical)) {
		id, err := images.Find(name)
		var img *store.Image
		if err == nil {
			img, err = images.Get(id)
		}
		switch {
		case err == nil:
			return img, nil
		case pull == PullNever && nameErr == nil:
			return nil, runtime.Errorf(runtime.ErrNotFound, "image %s is not here, and --pull never does not pull it: wolffia image pull %s", name, name)
		}
	}
	if nameErr != nil {
		return nil, nameErr
	}
	id, err := h.Pull(ctx, &puller.Request{Name: name, Public: public, Login: login})
	if err != nil {
		return nil, err
	}
	return images.Get(id)
}
