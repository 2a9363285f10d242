// Package engineapi serves a part of version 1.41 of Docker's Engine API over containers that are
// sandboxes.
//
// Source: docs.docker.com/reference/api/engine/version/v1.41. What is not a part answers with
// status 501.
package engineapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"wolffia/image/store"
	"wolffia/internal/sys/rmtree"
	"wolffia/ops/stream"
	"wolffia/runtime"
	"wolffia/service/container"
	"wolffia/service/container/view"
	"wolffia/service/gate"
)

// A BuildRequest is what an image is made of.
type BuildRequest struct {
	Dir     string // the context
	File    string // the Dockerfile, below Dir
	Names   []string
	Args    map[string]string
	Target  string
	NoCache bool
	Pull    bool
	Offline bool                       // without a network
	logins  map[string]json.RawMessage // by the names of registries that names of images begin with
}

// Login returns the client's credentials for an image, as puller.Request has them; nil: none.
func (q *BuildRequest) Login(image string) []byte {
	canonical, _ := store.Canonical(image)
	host, _, _ := strings.Cut(canonical, "/")
	return q.logins[host]
}

// Options are a handler's options.
type Options struct {
	stream.Options
	Version string // of wolffia
	// Pull gets an image, as the service's flags permit it, with credentials as puller.Request.
	Pull func(ctx context.Context, name string, login []byte) error
	// Build makes an image, writes its progress to w, and returns its id.
	Build func(ctx context.Context, q *BuildRequest, w io.Writer) (id string, err error)
	// Temp is a directory for the contexts of builds, which no other process uses. New empties it.
	Temp string
}

// A Handler is the [http.Handler] of the API. All requests act for one caller, who may use all
// containers: the listener must admit no other. It is safe for concurrent use.
type Handler struct {
	opts   Options
	engine *container.Engine
	log    *slog.Logger
	ctx    context.Context // until Close
	cancel context.CancelFunc
	execs  executions
}

// New returns a handler over an engine. The caller closes it before the engine.
func New(engine *container.Engine, opts *Options) *Handler {
	h := &Handler{opts: *opts, engine: engine}
	h.opts.Options = opts.Whole()
	h.log = h.opts.Log
	h.ctx, h.cancel = context.WithCancel(context.Background())
	if opts.Temp != "" { // a killed service has left its own
		if err := rmtree.RemovePath(filepath.Dir(opts.Temp), filepath.Base(opts.Temp)); err != nil {
			h.log.Warn("contexts of builds cannot be removed", "dir", opts.Temp, "error", err.Error())
		}
	}
	return h
}

// Close ends the requests that run, and the commands that they have begun.
func (h *Handler) Close() { h.cancel() }

// A request is one call.
type request struct {
	*http.Request
	opts  *stream.Options
	w     http.ResponseWriter
	query url.Values
	ref   string // of a container, an image or an exec
}

// truth returns a parameter that is true or false.
func (r *request) truth(name string) bool {
	v := r.query.Get(name)
	return v != "" && v != "0" && v != "false" && v != "False"
}

// A call answers a request: with what it returns as JSON, with 204 if that is nil, or by itself if
// it is done.
type call func(h *Handler, ctx context.Context, r *request) (any, error)

// of returns a call that acts on the container of its request.
func of(do func(h *Handler, ctx context.Context, r *request, c *container.Container) (any, error)) call {
	return func(h *Handler, ctx context.Context, r *request) (any, error) {
		c, err := h.engine.Get(ctx, r.ref)
		if err != nil {
			return nil, err
		}
		return do(h, ctx, r, c)
	}
}

// done says that a call has answered by itself.
type done struct{}

// created is a reply with status 201.
type created struct{ any }

// calls are the calls by method and path, in which * is a reference.
var calls = map[string]call{
	"GET _ping": ping, "HEAD _ping": ping, "GET version": version, "GET info": info, "GET events": events,
	"POST auth": auth, "GET networks": listNetworks, "GET networks/*": inspectNetwork,
	"GET containers/json": listContainers, "POST containers/create": createContainer,
	"GET containers/*/json": of(inspectContainer), "DELETE containers/*": changing(remove),
	"POST containers/*/start": changing(start), "POST containers/*/stop": changing(stop),
	"POST containers/*/restart": changing(restart), "POST containers/*/kill": changing(kill),
	"POST containers/*/pause": changing(pause), "POST containers/*/unpause": changing(unpause),
	"POST containers/*/wait": of(waitContainer), "POST containers/*/resize": of(resizeContainer),
	"POST containers/*/attach": of(attachContainer), "GET containers/*/logs": of(containerLogs),
	"GET containers/*/archive": of(getArchive), "HEAD containers/*/archive": of(statArchive),
	"PUT containers/*/archive": of(putArchive),
	"POST containers/*/exec":   of(createExec), "POST exec/*/start": startExec, "GET exec/*/json": inspectExec,
	"POST exec/*/resize": resizeExec,
	"GET images/json":    listImages, "POST images/create": pullImage, "GET images/*/json": inspectImage,
	"DELETE images/*": removeImage, "POST images/*/tag": tagImage, "POST build": build,
}

var versionOf = regexp.MustCompile(`^/v1\.[0-9]{1,3}/`)

// find returns the call of a request, by what is before and behind the reference.
func find(method, path string) (c call, pattern, ref string) {
	path = strings.Trim(versionOf.ReplaceAllString(path, "/"), "/")
	pattern = method + " " + path
	if c := calls[pattern]; c != nil {
		return c, pattern, ""
	}
	first, rest, _ := strings.Cut(path, "/")
	if at := strings.LastIndex(rest, "/"); at > 0 { // the names of images have slashes
		pattern = method + " " + first + "/*" + rest[at:]
		if c := calls[pattern]; c != nil {
			return c, pattern, rest[:at]
		}
	}
	pattern = method + " " + first + "/*"
	if c := calls[pattern]; c != nil && rest != "" {
		return c, pattern, rest
	}
	return nil, "", ""
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin := time.Now()
	w = &stream.Patient{ResponseWriter: w, Limit: h.opts.WriteLimit}
	w.Header().Set("Api-Version", view.APIVersion)
	w.Header().Set("Ostype", "linux")
	w.Header().Set("Server", "Docker/"+h.opts.Version+" (wolffia)")
	c, pattern, ref := find(r.Method, r.URL.Path)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	q, err := gate.Query(r)
	var reply any
	switch {
	case err != nil:
	case c == nil:
		err = runtime.Errorf(runtime.ErrUnsupported,
			"%s %.200s: wolffia does not have this call of docker's API", r.Method, r.URL.Path)
	default:
		r.Body = &stream.Body{ReadCloser: r.Body, Control: http.NewResponseController(w), Limit: h.opts.BodyLimit}
		reply, err = c(h, ctx, &request{r, &h.opts.Options, w, q, ref})
	}
	status := http.StatusOK
	switch {
	case err != nil:
		status = h.fail(w, pattern, err)
	case reply == nil:
		status = http.StatusNoContent
		w.WriteHeader(status)
	default:
		switch v := reply.(type) {
		case done:
		case created:
			status = http.StatusCreated
			h.opts.JSON(w, status, v.any)
		default:
			h.opts.JSON(w, status, v)
		}
	}
	h.log.Info("docker", "call", pattern, "status", status, "durationMs", time.Since(begin).Milliseconds())
}

// statusNotModified is docker's status for a container that is in the state that it is to get.
var errNotModified = errors.New("not modified")

// fail answers with an error, in docker's form.
func (h *Handler) fail(w http.ResponseWriter, pattern string, err error) (status int) {
	text := err.Error()
	s, known := gate.StatusOf(err)
	status = s.HTTP
	switch {
	case errors.Is(err, errNotModified):
		w.WriteHeader(http.StatusNotModified)
		return http.StatusNotModified
	case !known:
		h.log.Error("a request failed", "call", pattern, "error", text)
		status, text = http.StatusInternalServerError, "internal error: see the service's log"
	case container.StartCode(err) != 125: // docker's command line takes the exit code from the text
		status = http.StatusBadRequest
	case s.HTTP == gate.StatusCanceled:
		status = http.StatusServiceUnavailable
	}
	h.opts.JSON(w, status, map[string]string{"message": text})
	return status
}

// maxBody is the largest body of JSON, in bytes.
const maxBody = 1 << 20

// decode reads a body of JSON into to; an empty one is {}. What a caller sets that to does not
// have is an error.
func (r *request) decode(to any) error {
	b, err := r.opts.Read(r.w, r.Request, maxBody)
	switch {
	case err != nil:
		return runtime.Errorf(runtime.ErrInvalid, "the request's body: %w", err)
	case len(b) == 0:
		return nil
	}
	return decode(b, to)
}

func ping(_ *Handler, _ context.Context, r *request) (any, error) {
	r.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	r.w.Header().Set("Cache-Control", "no-cache, no-store, must-revalidate")
	r.w.Header().Set("Docker-Experimental", "false")
	r.w.Header().Set("Builder-Version", "1") // the classic builder, which sends its context as tar
	_, _ = io.WriteString(r.w, "OK")
	return done{}, nil
}

func version(h *Handler, _ context.Context, _ *request) (any, error) {
	return view.Version(h.opts.Version), nil
}

func info(h *Handler, ctx context.Context, _ *request) (any, error) {
	return view.Info(ctx, h.engine, h.opts.Version)
}

// networks are docker's own, which clients look for. bridge is what a container has that asks for
// none; what it publishes is at the host's loopback address, which clients take for the gateway.
func networks() (all []view.Object) {
	gateway := []view.Object{{"Gateway": "127.0.0.1"}}
	for _, name := range []string{"bridge", "host", "none"} {
		all = append(all, view.Object{
			"Name": name, "Id": name, "Driver": "wolffia", "Scope": "local", "Internal": false, "Attachable": false,
			"EnableIPv6": false, "IPAM": view.Object{"Driver": "default", "Config": gateway},
			"Containers": view.Object{}, "Options": view.Object{}, "Labels": view.Object{},
		})
	}
	return all
}

func listNetworks(_ *Handler, _ context.Context, r *request) (any, error) {
	if by, err := r.filters(); err != nil || len(by) > 0 {
		return nil, cmp.Or(err, runtime.Errorf(runtime.ErrUnsupported, "networks: filters of them do not exist here"))
	}
	return networks(), nil
}

func inspectNetwork(_ *Handler, _ context.Context, r *request) (any, error) {
	for _, n := range networks() {
		if n["Name"] == r.ref {
			return n, nil
		}
	}
	return nil, runtime.Errorf(runtime.ErrNotFound, "network %s not found", r.ref)
}

func auth(*Handler, context.Context, *request) (any, error) {
	return nil, runtime.Errorf(runtime.ErrUnsupported,
		"docker login: the service checks no credentials: docker login without DOCKER_HOST: pull and build send them")
}

// filters reads the conditions of a list.
func (r *request) filters() (view.Filter, error) {
	text := r.query.Get("filters")
	if text == "" {
		return view.Filter{}, nil
	}
	f := view.Filter{}
	if json.Unmarshal([]byte(text), (*map[string][]string)(&f)) == nil {
		return f, nil
	}
	var sets map[string]map[string]bool
	if err := json.Unmarshal([]byte(text), &sets); err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "filters: %w", err)
	}
	f = view.Filter{}
	for k, values := range sets {
		for v, is := range values {
			if is {
				f[k] = append(f[k], v)
			}
		}
	}
	return f, nil
}

// events sends the changes of containers, as they happen.
func events(h *Handler, ctx context.Context, r *request) (any, error) {
	by, err := r.filters()
	if err != nil {
		return nil, err
	}
	if err := by.Check("type", "event", "container", "label", "image"); err != nil {
		return nil, err
	}
	if r.query.Get("since") != "" {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "events since a time: past events are not kept")
	}
	if until := r.query.Get("until"); until != "" {
		seconds, err := strconv.ParseFloat(until, 64)
		if err != nil {
			return nil, runtime.Errorf(runtime.ErrInvalid, "until: %w", err)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, time.UnixMilli(int64(seconds*1000)))
		defer cancel()
	}
	out := r.lines()
	return done{}, h.engine.Events(ctx, func(e *container.Event) error {
		if !matches(by, e) {
			return nil
		}
		return out.send(view.Object{
			"status": e.Action, "id": e.ID, "from": e.Image, "Type": "container", "Action": e.Action,
			"scope": "local", "Actor": view.Object{"ID": e.ID, "Attributes": e.Attributes},
			"time": e.Time.Unix(), "timeNano": e.Time.UnixNano(),
		})
	})
}

// matches reports whether a client wants an event.
func matches(by view.Filter, e *container.Event) bool {
	for k, values := range by {
		if !slices.ContainsFunc(values, func(v string) bool {
			switch k {
			case "type":
				return v == "container"
			case "event":
				return v == e.Action
			case "image":
				return v == e.Image
			case "container":
				return v == e.Attributes["name"] || v != "" && strings.HasPrefix(e.ID, v)
			}
			name, value, _ := strings.Cut(v, "=") // label
			return e.Attributes[name] == value
		}) {
			return false
		}
	}
	return true
}

// lines send JSON values, each at once.
type lines struct{ *live }

// lines begins a reply of JSON values.
func (r *request) lines() lines {
	l := lines{&live{w: r.w, kind: "application/json"}}
	l.begin()
	return l
}

func (l lines) send(v any) error { return json.NewEncoder(l).Encode(v) }

// fail ends the values with an error, as docker does for what has begun.
func (l lines) fail(err error) {
	_ = l.send(view.Object{"errorDetail": view.Object{"message": err.Error()}, "error": err.Error()})
}
