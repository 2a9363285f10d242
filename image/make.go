package image

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"wolffia/image/maker"
	"wolffia/image/store"
	"wolffia/internal/image/dockerparse"
	"wolffia/internal/image/layers"
	"wolffia/internal/sys/step"
	"wolffia/runtime"
)

// Make does what a request says. It runs where maker.Run starts it. ids are those of the namespace
// on the host, for the image's mark; nil if the caller is its only user.
func Make(ctx context.Context, req *maker.Request, ids *store.IDs) (*maker.Result, error) {
	s := store.Open(req.StateDir)
	switch {
	case req.Commit != nil:
		return commit(ctx, s, req.Commit, ids)
	case req.Export != nil:
		return export(s, req.Export)
	case req.Fill != nil:
		return fill(ctx, s, req.Fill, ids)
	case req.Parse != nil:
		f, err := dockerparse.Parse(req.Parse)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(f)
		return &maker.Result{Parsed: text}, err
	}
	return nil, runtime.Errorf(runtime.ErrInvalid, "the request is empty")
}

// commit makes an image, or finds the one that the same step has made.
func commit(ctx context.Context, s *store.Store, c *maker.Commit, ids *store.IDs) (_ *maker.Result, err error) {
	skipped := ""
	above, err := s.Lineage(c.Parent)
	if err != nil {
		return nil, err
	}
	st, err := s.Stage(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	child := &store.Child{Parent: c.Parent, Step: c.Step, Names: c.Names}
	switch {
	case c.Recipe != nil:
		k := &cook{ctx: ctx, s: s, st: st, ids: ids}
		defer func() { err = errors.Join(err, k.close()) }()
		if err := k.open(c.Recipe); err != nil {
			return nil, err
		}
		digest, err := k.sources.Digest()
		if err != nil {
			return nil, err
		}
		child.Step = stepOf(c, digest)
		if id := s.StepOf(c.Parent, child.Step); id != "" && !c.Recipe.Fresh {
			return &maker.Result{ID: id, Cached: true}, nil
		}
		if err := k.apply(above); err != nil {
			return nil, err
		}
		child.Step, skipped = stepOf(c, k.sources.Copied()), k.sources.Skipped()
		if err := k.close(); err != nil { // the stage is about to move
			return nil, err
		}
	case c.Upper != "":
		if err := take(c, st); err != nil {
			return nil, err
		}
		if c.Move { // as BuildKit; in a sandbox that is committed, a directory may be empty on purpose
			for _, name := range c.Skip {
				if err := layers.RemoveEmptyParents(st.Layer(), s.Layers(above), name); err != nil {
					return nil, err
				}
			}
		}
	}
	step.Reached("image: layer made")
	r, err := finish(ctx, s, c, st, child, above, ids)
	if err == nil {
		r.Skipped = skipped
	}
	return r, err
}

// stepOf returns the key of a step that copies what has this digest.
func stepOf(c *maker.Commit, digest string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(c.Step+"\n"+digest)))
}

// fill follows a recipe in a directory.
func fill(ctx context.Context, s *store.Store, f *maker.Fill, ids *store.IDs) (_ *maker.Result, err error) {
	st, err := s.Stage(ctx) // for mounts
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	k := &cook{ctx: ctx, s: s, st: st, ids: ids}
	defer func() { err = errors.Join(err, k.close()) }()
	if err := k.open(f.Recipe); err != nil {
		return nil, err
	}
	if err := k.sources.Apply(f.Dir); err != nil {
		return nil, err
	}
	return &maker.Result{Digest: k.sources.Copied()}, nil
}

// finish makes an image of a stage and its layer, if that has a file.
func finish(ctx context.Context, s *store.Store, c *maker.Commit, st *store.Stage, child *store.Child, above []*store.Image, ids *store.IDs) (*maker.Result, error) {
	var diffID string
	err := os.Remove(st.Layer())
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, unix.ENOTEMPTY):
		stats, err := layers.Of(st.Layer())
		if err != nil {
			return nil, err
		}
		if child.Size, child.Files = stats.Size, stats.Files; stats.Several {
			child.IDs = ids
		}
		diffID, err = digestOf(func(w io.Writer) error { return layers.Write(w, st.Layer(), nil) })
		if err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	}
	var parent *v1.ConfigFile
	if err = nil; len(above) > 0 {
		parent, _, err = configFile(s, above)
	}
	if err == nil {
		child.Config, err = childConfig(parent, c, diffID, time.Now())
	}
	if err != nil {
		return nil, err
	}
	img, err := st.Add(ctx, child)
	if err != nil {
		return nil, err
	}
	return &maker.Result{ID: img.ID}, nil
}

// take takes a layer into a stage.
func take(c *maker.Commit, st *store.Stage) error {
	if !c.Move || c.UpperIDs != nil {
		return layers.Copy(c.Upper, st.Layer(), c.UpperIDs, func(name string) bool { return slices.Contains(c.Skip, name) })
	}
	for _, name := range c.Skip {
		if err := layers.Remove(c.Upper, name); err != nil {
			return err
		}
	}
	return os.Rename(c.Upper, st.Layer())
}
