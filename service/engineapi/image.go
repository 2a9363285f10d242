package engineapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"wolffia/image/store"
	"wolffia/internal/image/buildcontext"
	"wolffia/internal/sys/rmtree"
	"wolffia/runtime"
	"wolffia/service/container"
	"wolffia/service/container/view"
)

func listImages(h *Handler, _ context.Context, r *request) (any, error) {
	by, err := r.filters()
	if err != nil {
		return nil, err
	}
	if err := by.Check("reference", "dangling"); err != nil {
		return nil, err
	}
	list, err := h.engine.Images(r.truth("all"))
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(i *store.Entry) bool { return !view.HasImage(by, i) })
	return each(list, view.SummarizeImage), nil
}

func inspectImage(h *Handler, _ context.Context, r *request) (any, error) {
	i, err := h.engine.Image(r.ref)
	if err != nil {
		return nil, err
	}
	return view.InspectImage(i), nil
}

func removeImage(h *Handler, ctx context.Context, r *request) (any, error) {
	if err := h.engine.RemoveImage(ctx, r.ref); err != nil {
		return nil, err
	}
	return []map[string]string{{"Untagged": r.ref}}, nil
}

func tagImage(h *Handler, ctx context.Context, r *request) (any, error) {
	name := r.query.Get("repo")
	if tag := r.query.Get("tag"); tag != "" {
		name += ":" + tag
	}
	return created{map[string]string{}}, h.engine.TagImage(ctx, r.ref, name)
}

// credentials decodes a header with credentials: an object in base64, of which to has the parts.
// The client's own word for none is an empty object.
func credentials(header string, to any) error {
	text, err := base64.URLEncoding.DecodeString(header)
	if err != nil {
		text, err = base64.RawURLEncoding.DecodeString(header)
	}
	if err == nil && len(text) > 0 {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		return runtime.Errorf(runtime.ErrInvalid, "the header with credentials cannot be read: %w", err)
	}
	return nil
}

// loginOf returns credentials as they are used; nil: they are none.
func loginOf(own map[string]string) (login []byte, err error) {
	delete(own, "serveraddress")
	delete(own, "email")
	if maps.DeleteFunc(own, func(_, v string) bool { return v == "" }); len(own) == 0 {
		return nil, nil
	}
	return json.Marshal(own)
}

// logins returns the credentials that a build has, by registry.
func logins(header string) (map[string]json.RawMessage, error) {
	var all map[string]map[string]string
	if err := credentials(header, &all); err != nil {
		return nil, err
	}
	of := map[string]json.RawMessage{}
	for name, own := range all {
		host, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(name, "https://"), "http://"), "/")
		if host == "index.docker.io" {
			host = "docker.io"
		}
		login, err := loginOf(own)
		if err != nil {
			return nil, err
		}
		if login != nil {
			of[host] = login
		}
	}
	return of, nil
}

func pullImage(h *Handler, ctx context.Context, r *request) (any, error) {
	name, tag := r.query.Get("fromImage"), r.query.Get("tag")
	switch {
	case name == "":
		return nil, runtime.Errorf(runtime.ErrUnsupported,
			"docker import does not exist here: wolffia image import reads archives")
	case strings.HasPrefix(tag, "sha256:"):
		name += "@" + tag
	case tag != "":
		name += ":" + tag
	}
	if err := container.CheckPlatform(r.query.Get("platform")); err != nil {
		return nil, err
	}
	var own map[string]string
	if err := credentials(r.Header.Get("X-Registry-Auth"), &own); err != nil {
		return nil, err
	}
	login, err := loginOf(own)
	if err != nil {
		return nil, err
	}
	out := r.lines()
	_ = out.send(map[string]string{"status": "Pulling from " + name, "id": tag})
	if err := h.opts.Pull(ctx, name, login); err != nil {
		out.fail(err)
		return done{}, nil
	}
	_ = out.send(map[string]string{"status": "Status: Image is up to date for " + name})
	return done{}, nil
}

func build(h *Handler, ctx context.Context, r *request) (any, error) {
	for name, values := range r.query {
		asks := !slices.Contains([]string{"", "0", "{}", "[]", "null", "default"}, values[0]) || len(values) > 1
		switch name {
		case "t", "dockerfile", "buildargs", "nocache", "pull", "target", "q", "rm", "forcerm", "version":
			asks = false
		case "networkmode":
			asks = asks && (values[0] != "none" || len(values) > 1)
		}
		if asks {
			return nil, runtime.Errorf(runtime.ErrUnsupported, "build: %s: wolffia does not have this option of docker's", name)
		}
	}
	q := &BuildRequest{
		Target: r.query.Get("target"), NoCache: r.truth("nocache"), Pull: r.truth("pull"),
		Offline: r.query.Get("networkmode") == "none",
	}
	var err error
	if q.logins, err = logins(r.Header.Get("X-Registry-Config")); err != nil {
		return nil, err
	}
	var args map[string]*string
	if text := r.query.Get("buildargs"); text != "" {
		if err := json.Unmarshal([]byte(text), &args); err != nil {
			return nil, runtime.Errorf(runtime.ErrInvalid, "buildargs: %w", err)
		}
	}
	q.Args = map[string]string{}
	for k, v := range args {
		if v != nil {
			q.Args[k] = *v
		}
	}
	tags := slices.DeleteFunc(r.query["t"], func(t string) bool { return t == "" })
	if q.Names, err = container.ImageNames(tags); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(h.opts.Temp, 0o700); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(h.opts.Temp, "build-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := rmtree.RemovePath(h.opts.Temp, filepath.Base(dir)); err != nil {
			h.log.Warn("the context of a build cannot be removed", "dir", dir, "error", err.Error())
		}
	}()
	if err := buildcontext.Unpack(dir, r.Body, buildcontext.NewBudget()); err != nil {
		return nil, err
	}
	file := r.query.Get("dockerfile")
	if file == "" {
		file = "Dockerfile"
	}
	if err := within(dir, file); err != nil {
		return nil, err
	}
	q.Dir, q.File = dir, filepath.Join(dir, file)
	out := r.lines()
	progress := io.Writer(&progressLines{out})
	if r.truth("q") {
		progress = io.Discard
	}
	id, err := h.opts.Build(ctx, q, progress)
	if err != nil {
		out.fail(err)
		return done{}, nil
	}
	_ = out.send(map[string]any{"aux": map[string]string{"ID": id}})
	for line := range strings.Lines(container.Built(id, tags, r.truth("q"))) {
		_ = out.send(map[string]string{"stream": line})
	}
	return done{}, nil
}

// within returns an error unless a Dockerfile, and what it ignores, are files of the context: the
// context's author does not read files of the host by links.
func within(dir, file string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range []string{file, file + ".dockerignore"} {
		switch info, err := root.Stat(name); {
		case errors.Is(err, fs.ErrNotExist) && name != file:
		case err != nil:
			return runtime.Errorf(runtime.ErrInvalid, "dockerfile: %w", err)
		case !info.Mode().IsRegular():
			return runtime.Errorf(runtime.ErrInvalid, "dockerfile: %q is not a file", name)
		}
	}
	return nil
}

// progressLines are the progress of a build.
type progressLines struct{ out lines }

func (p *progressLines) Write(b []byte) (int, error) {
	return len(b), p.out.send(map[string]string{"stream": string(b)})
}
