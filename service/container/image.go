package container

import (
	"context"
	"errors"
	"slices"

	"wolffia/image/store"
	"wolffia/runtime"
)

// Image returns the entry of the image that a reference means.
func (e *Engine) Image(ref string) (*store.Entry, error) {
	id, err := e.opts.Images.Find(ref)
	if err != nil {
		return nil, noImage(ref, err)
	}
	all, err := e.opts.Images.List()
	for _, i := range all {
		if i.ID == id {
			return i, nil
		}
	}
	if err == nil {
		err = runtime.Errorf(runtime.ErrNotFound, "No such image: %s", ref)
	}
	return nil, err
}

// Images returns the images: those with names, or with all each that has files of its own.
func (e *Engine) Images(all bool) ([]*store.Entry, error) {
	list, err := e.opts.Images.List()
	if list == nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(i *store.Entry) bool {
		return i.Problem != "" || i.System || !all && len(i.Names) == 0 && (i.Step != "" || len(i.Children) > 0)
	}), nil
}

// RemoveImage takes a name of an image away, and deletes an image with its last name.
func (e *Engine) RemoveImage(ctx context.Context, ref string) error {
	err := e.opts.Images.Remove(ctx, ref)
	if errors.Is(err, runtime.ErrNotFound) {
		err = noImage(ref, err)
	}
	return err
}

// TagImage gives an image another name.
func (e *Engine) TagImage(ctx context.Context, ref, name string) error {
	id, err := e.opts.Images.Find(ref)
	if err != nil {
		return noImage(ref, err)
	}
	canonical, err := store.Canonical(name)
	if err != nil {
		return err
	}
	_, unpin, err := e.opts.Images.Pin(ctx, id)
	if err != nil {
		return err
	}
	defer unpin()
	return e.opts.Images.Tag(ctx, id, []string{canonical})
}

// MadeOf returns the image of a container.
func (c *Container) MadeOf() (*store.Image, error) { return c.engine.opts.Images.Get(c.ImageID) }

// ImageNames returns the canonical names of the tags of a build.
func ImageNames(tags []string) (names []string, err error) {
	for _, t := range tags {
		name, err := store.Canonical(t)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// Built returns the last lines of a build, of an image with tags.
func Built(id string, tags []string, quiet bool) string {
	if quiet {
		return id + "\n"
	}
	text := "Successfully built " + store.Short(id) + "\n"
	for _, t := range tags {
		text += "Successfully tagged " + t + "\n"
	}
	return text
}
