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
	list, err := h.engine.List(ctx, caller)
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
	all := []view.Object{}
	for _, c := range list {
		all = append(all, view.Summary(c))
	}
	return all, nil
}

func createContainer(h *Handler, ctx context.Context, r *request) (any, error) {
	config := new(container.Config)
	if err := container.CheckPlatform(r.query.Get("platform")); err != nil {
		return nil, err
	}
	if err := r.decode(config); err != nil {
		return nil, err
	}
	made, warnings, err := h.engine.Create(ctx, caller, r.query.Get("name"), config)
	if err != nil {
		return nil, err
	}
	if warnings == nil {
		warnings = []string{}
	}
	return created{map[string]any{"Id": made.ID(), "Warnings": warnings}}, nil
}

func inspectContainer(h *Handler, ctx context.Context, r *request, c *container.Container) (any, error) {
	return view.Inspect(h.engine, c)
}

func startContainer(h *Handler, ctx context.Context, r *request, c *container.Container) (any, error) {
	err := h.engine.Start(context.WithoutCancel(ctx), caller, c, nil)
	if errors.Is(err, runtime.ErrExists) {
		return nil, errNotModified
	}
	return nil, err
}

// seconds returns the parameter t; nil: it is not set.
func (r *request) seconds() *time.Duration {
	n, err := strconv.Atoi(r.query.Get("t"))
	if err != nil {
		return nil
	}
	return new(time.Duration(n) * time.Second)
}

func stopContainer(h *Handler, ctx context.Context, r *request, c *container.Container) (any, error) {
	if !c.State.Runs() {
		return nil, errNotModified
	}
	return nil, h.engine.Stop(context.WithoutCancel(ctx), caller, c, r.seconds())
}

func restartContainer(h *Handler, ctx context.Context, r *request, c *container.Container) (any, error) {
	ctx = context.WithoutCancel(ctx)
	if c.State.Runs() {
		err := h.engine.Stop(ctx, caller, c, r.seconds())
		if err == nil {
			c, err = h.get(ctx, r)
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, h.engine.Start(ctx, caller, c, nil)
}

func killContainer(h *Handler, ctx context.Context, r *request, c *container.Container) (any, error) {
	return nil, h.engine.Kill(context.WithoutCancel(ctx), caller, c, r.query.Get("signal"))
}

func pauseContainer(h *Handler, ctx context.Context, _ *request, c *container.Container) (any, error) {
	return nil, h.engine.Pause(context.WithoutCancel(ctx), caller, c)
}

func unpauseContainer(h *Handler, ctx context.Context, _ *request, c *container.Container) (any, error) {
	return nil, h.engine.Unpause(context.WithoutCancel(ctx), caller, c)
}

// waitContainer answers when the main process has ended; the headers at once, so that the client
// can then start it.
func waitContainer(h *Handler, ctx context.Context, r *request, c *container.Container) (any, error) {
	wait := func(ctx context.Context) (int, error) { return h.engine.Wait(ctx, caller, c) }
	switch condition := r.query.Get("condition"); condition {
	case "", "not-running":
	case "next-exit", "removed":
		wait = h.engine.Next(caller, c)
	default:
		return nil, runtime.Errorf(runtime.ErrInvalid, "invalid condition: %q", condition)
	}
	r.w.Header().Set("Content-Type", "application/json")
	r.w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(r.w).Flush()
	code, err := wait(ctx)
	reply := map[string]any{"StatusCode": code, "Error": nil}
	if err != nil {
		reply["Error"] = map[string]string{"Message": err.Error()}
	}
	_ = json.NewEncoder(r.w).Encode(reply)
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

func resizeContainer(h *Handler, ctx context.Context, r *request, c *container.Container) (any, error) {
	rows, cols, err := r.size()
	if err != nil {
		return nil, err
	}
	return view.Object{}, h.engine.Resize(ctx, caller, c, rows, cols)
}

func removeContainer(h *Handler, ctx context.Context, r *request) (any, error) {
	if r.truth("link") {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "link: there are no links")
	}
	return nil, h.engine.Remove(context.WithoutCancel(ctx), caller, r.ref, r.truth("force"))
}

// place returns a handle on the container's files, and the path of the request.
func (h *Handler) place(ctx context.Context, r *request, c *container.Container) (*service.Inside, string, error) {
	path := r.query.Get("path")
	if path == "" {
		return nil, "", runtime.Errorf(runtime.ErrInvalid, "path: it must not be empty")
	}
	in, err := h.engine.Inside(ctx, caller, c)
	return in, path, err
}

// stat sets the header that describes a file.
func (h *Handler) stat(ctx context.Context, r *request, c *container.Container) (*service.Inside, string, error) {
	in, path, err := h.place(ctx, r, c)
	if err != nil {
		return nil, "", err
	}
	s, err := files.Describe(ctx, in, path)
	if err != nil {
		return nil, "", err
	}
	text, err := json.Marshal(s)
	r.w.Header().Set("X-Docker-Container-Path-Stat", base64.StdEncoding.EncodeToString(text))
	return in, path, err
}

func statArchive(h *Handler, ctx context.Context, r *request, c *container.Container) (any, error) {
	if _, _, err := h.stat(ctx, r, c); err != nil {
		return nil, err
	}
	r.w.WriteHeader(http.StatusOK)
	return done{}, nil
}

func getArchive(h *Handler, ctx context.Context, r *request, c *container.Container) (any, error) {
	in, path, err := h.stat(ctx, r, c)
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

func putArchive(h *Handler, ctx context.Context, r *request, c *container.Container) (any, error) {
	if r.truth("copyUIDGID") {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "copyUIDGID: owners are not kept: leave it out")
	}
	in, path, err := h.place(ctx, r, c)
	if err != nil {
		return nil, err
	}
	if err := files.Put(ctx, in, path, r.Body); err != nil {
		return nil, err
	}
	r.w.WriteHeader(http.StatusOK)
	return done{}, nil
}
