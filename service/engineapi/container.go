package engineapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/container"
	"wolffia/service/container/files"
	"wolffia/service/container/view"
)

func listContainers(h *Handler, ctx context.Context, r *request) (any, error) {
	by, err := r.filters()
	if err != nil {
		return nil, err
	}
	list, err := h.engine.List(ctx)
	if err != nil {
		return nil, err
	}
	limit, _ := strconv.Atoi(r.query.Get("limit"))
	if list, err = by.Containers(list, r.truth("all") || limit > 0); err != nil {
		return nil, err
	}
	if limit > 0 {
		list = list[:min(limit, len(list))]
	}
	return each(list, view.Summary), nil
}

// each returns what docker says of each of a list; none is an empty list.
func each[T any](list []T, say func(T) view.Object) []view.Object {
	all := make([]view.Object, 0, len(list))
	for _, one := range list {
		all = append(all, say(one))
	}
	return all
}

func createContainer(h *Handler, ctx context.Context, r *request) (any, error) {
	config := new(container.Config)
	if err := container.CheckPlatform(r.query.Get("platform")); err != nil {
		return nil, err
	}
	if err := r.decode(config); err != nil {
		return nil, err
	}
	made, warnings, err := h.engine.Create(ctx, r.query.Get("name"), config)
	if err != nil {
		return nil, err
	}
	return created{view.Object{"Id": made.ID(), "Warnings": append([]string{}, warnings...)}}, nil
}

func inspectContainer(_ *Handler, _ context.Context, _ *request, c *container.Container) (any, error) {
	return view.Inspect(c)
}

// changing returns a call that changes the container of its request, also if its client goes.
func changing(do func(ctx context.Context, r *request, c *container.Container) error) call {
	return of(func(_ *Handler, ctx context.Context, r *request, c *container.Container) (any, error) {
		return nil, do(context.WithoutCancel(ctx), r, c)
	})
}

func start(ctx context.Context, _ *request, c *container.Container) error {
	err := c.Start(ctx, nil)
	if errors.Is(err, runtime.ErrExists) {
		return errNotModified
	}
	return err
}

// seconds returns the parameter t; nil: it is not set.
func (r *request) seconds() *time.Duration {
	n, err := strconv.Atoi(r.query.Get("t"))
	if err != nil {
		return nil
	}
	return new(time.Duration(n) * time.Second)
}

func stop(ctx context.Context, r *request, c *container.Container) error {
	if !c.State.Runs() {
		return errNotModified
	}
	return c.Stop(ctx, r.seconds())
}

func restart(ctx context.Context, r *request, c *container.Container) error {
	err := c.Stop(ctx, r.seconds())
	if err == nil {
		c, err = c.Now(ctx)
	}
	if err != nil {
		return err
	}
	return c.Start(ctx, nil)
}

func kill(ctx context.Context, r *request, c *container.Container) error {
	return c.Kill(ctx, r.query.Get("signal"))
}

func pause(ctx context.Context, _ *request, c *container.Container) error { return c.Pause(ctx) }

func unpause(ctx context.Context, _ *request, c *container.Container) error { return c.Unpause(ctx) }

// waitContainer answers when the main process has ended; the headers at once, so that the client
// can then start it.
func waitContainer(_ *Handler, ctx context.Context, r *request, c *container.Container) (any, error) {
	wait := c.Wait
	switch condition := r.query.Get("condition"); condition {
	case "", "not-running":
	case "next-exit", "removed":
		wait = c.Next()
	default:
		return nil, runtime.Errorf(runtime.ErrInvalid, "invalid condition: %q", condition)
	}
	out := r.lines()
	code, err := wait(ctx)
	reply := view.Object{"StatusCode": code, "Error": nil}
	if err != nil {
		reply["Error"] = view.Object{"Message": err.Error()}
	}
	_ = out.send(reply)
	return done{}, nil
}

// size returns the parameters h and w.
func (r *request) size() (rows, cols uint16, err error) {
	h, err1 := strconv.ParseUint(r.query.Get("h"), 10, 16)
	w, err2 := strconv.ParseUint(r.query.Get("w"), 10, 16)
	if err := errors.Join(err1, err2); err != nil {
		return 0, 0, runtime.Errorf(runtime.ErrInvalid, "size: %w", err)
	}
	return uint16(h), uint16(w), nil
}

func resizeContainer(_ *Handler, ctx context.Context, r *request, c *container.Container) (any, error) {
	rows, cols, err := r.size()
	if err != nil {
		return nil, err
	}
	return view.Object{}, c.Resize(ctx, rows, cols)
}

func remove(ctx context.Context, r *request, c *container.Container) error {
	if r.truth("link") {
		return runtime.Errorf(runtime.ErrUnsupported, "link: there are no links")
	}
	return c.Remove(ctx, r.truth("force"))
}

// place returns a handle on the container's files, and the path of the request. described: it sets
// the header that describes the file.
func (r *request) place(ctx context.Context, c *container.Container, described bool) (*service.Inside, string, error) {
	path := r.query.Get("path")
	if path == "" {
		return nil, "", runtime.Errorf(runtime.ErrInvalid, "path: it must not be empty")
	}
	in, err := c.Inside(ctx)
	if err != nil || !described {
		return in, path, err
	}
	s, err := files.Describe(ctx, in, path)
	if err != nil {
		return nil, "", err
	}
	text, err := json.Marshal(s)
	r.w.Header().Set("X-Docker-Container-Path-Stat", base64.StdEncoding.EncodeToString(text))
	return in, path, err
}

func statArchive(_ *Handler, ctx context.Context, r *request, c *container.Container) (any, error) {
	if _, _, err := r.place(ctx, c, true); err != nil {
		return nil, err
	}
	r.w.WriteHeader(http.StatusOK)
	return done{}, nil
}

func getArchive(h *Handler, ctx context.Context, r *request, c *container.Container) (any, error) {
	in, path, err := r.place(ctx, c, true)
	if err != nil {
		return nil, err
	}
	r.w.Header().Set("Content-Type", "application/x-tar")
	if err := files.Get(ctx, in, path, r.w); err != nil {
		h.log.Warn("an archive was not sent whole", "error", err.Error())
		panic(http.ErrAbortHandler) // so that the client does not take it for whole
	}
	return done{}, nil
}

func putArchive(_ *Handler, ctx context.Context, r *request, c *container.Container) (any, error) {
	if r.truth("copyUIDGID") {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "copyUIDGID: owners are not kept: leave it out")
	}
	in, path, err := r.place(ctx, c, false)
	if err != nil {
		return nil, err
	}
	if err := files.Put(ctx, in, path, r.Body); err != nil {
		return nil, err
	}
	r.w.WriteHeader(http.StatusOK)
	return done{}, nil
}
