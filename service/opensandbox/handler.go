package opensandbox

import (
	"net/http"
	"net/url"

	"wolffia/internal/filecall"
	"wolffia/internal/urlpath"
	"wolffia/ops/stream"
	"wolffia/service"
	"wolffia/service/gate"
)

// The ports that the endpoints of a sandbox have in OpenSandbox.
const (
	execdPort  = "44772"
	egressPort = "18080"
)

// Options are those of [stream.Options]; an upload may take ten times BodyLimit.
type Options = stream.Options

// A Handler is the [http.Handler] of the APIs. A request's context has its caller: see
// [service.WithCaller]. It is safe for concurrent use.
type Handler struct {
	replies
	service *service.Service
	mux     *http.ServeMux
	execd   *execd
}

// An execd serves the calls that OpenSandbox's daemon of that name has, which work in a sandbox.
type execd struct {
	replies
	kept stream.Kept[event]
}

// New returns a handler over a service.
func New(service *service.Service, opts *Options) *Handler {
	by := replies{opts.Whole()}
	h := &Handler{replies: by, service: service, mux: http.NewServeMux(), execd: &execd{replies: by}}
	h.mux.HandleFunc("GET /v1/openapi.json", func(w http.ResponseWriter, _ *http.Request) { h.opts.JSON(w, http.StatusOK, apiDocument()) })
	for pattern, c := range calls() {
		h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { h.serve(c.serve, w, r) })
	}
	return h
}

// A call is what is served at a pattern of [http.ServeMux].
type call struct {
	serve func(*Handler, http.ResponseWriter, *http.Request) error
	about *about // nil: the document of the API does not have it
}

// An insideCall is a call that works in the running sandbox that a request names.
type insideCall struct {
	serve func(*execd, http.ResponseWriter, *http.Request, *service.Inside) error
	about *about
}

// onSandbox serves a request.
func (c insideCall) onSandbox(h *Handler, w http.ResponseWriter, r *http.Request) error {
	in, err := h.inside(r)
	if err != nil {
		return err
	}
	return c.serve(h.execd, w, r, in)
}

// calls returns the calls of the APIs, by pattern.
func calls() map[string]call {
	all := map[string]call{
		"POST /v1/sandboxes":                                    {(*Handler).create, &about{summary: "create a sandbox", status: 202, in: createRequest{}, out: sandboxReply{}}},
		"GET /v1/sandboxes":                                     {(*Handler).list, &about{summary: "list sandboxes, newest first", status: 200, out: listReply{}, query: []string{"state", "metadata", "page", "pageSize"}}},
		"GET /v1/sandboxes/{id}":                                {(*Handler).get, &about{summary: "describe a sandbox", status: 200, out: sandboxReply{}}},
		"DELETE /v1/sandboxes/{id}":                             {(*Handler).destroy, &about{summary: "delete a sandbox", status: 204}},
		"POST /v1/sandboxes/{id}/pause":                         {(*Handler).pause, &about{summary: "stop a sandbox", status: 202}},
		"POST /v1/sandboxes/{id}/resume":                        {(*Handler).resume, &about{summary: "start a sandbox again", status: 202}},
		"POST /v1/sandboxes/{id}/renew-expiration":              {(*Handler).renew, &about{summary: "set when a sandbox ends", status: 200, in: expiration{}, out: expiration{}}},
		"GET /v1/sandboxes/{id}/endpoints/{port}":               {(*Handler).endpoint, &about{summary: "where a port can be reached", status: 200, out: endpointReply{}}},
		"PATCH /v1/sandboxes/{id}/metadata":                     {(*Handler).patchMetadata, &about{summary: "add, replace and, with null, remove metadata", status: 200, in: map[string]*string{}, out: sandboxReply{}}},
		"GET /v1/sandboxes/{id}/diagnostics/{kind}":             {(*Handler).diagnose, &about{summary: "logs and events as text in JSON; without scope, and inspect and summary, as text", status: 200, out: diagnosisReply{}, query: []string{"scope", "tail", "limit"}}},
		"POST /v1/sandboxes/{id}/fork":                          {(*Handler).fork, &about{summary: "start a copy of a sandbox, with its processes where the backend keeps them, else with its changes", status: 202, in: forkRequest{}, out: sandboxReply{}}},
		"POST /v1/metrics/events":                               {(*Handler).metricsEvent, nil},
		"POST /v1/sandboxes/{id}/snapshots":                     {(*Handler).createSnapshot, &about{summary: "keep a sandbox as it is, with its processes", status: 202, in: snapshotRequest{}, out: snapshotReply{}}},
		"GET /v1/snapshots":                                     {(*Handler).listSnapshots, &about{summary: "list snapshots, newest first", status: 200, out: snapshotsReply{}, query: []string{"sandboxId", "name", "state", "page", "pageSize"}}},
		"GET /v1/snapshots/{snapshot}":                          {(*Handler).getSnapshot, &about{summary: "describe a snapshot", status: 200, out: snapshotReply{}}},
		"DELETE /v1/snapshots/{snapshot}":                       {(*Handler).removeSnapshot, &about{summary: "delete a snapshot", status: 204}},
		"/v1/templates":                                         {noTemplates, nil},
		"/v1/templates/{template}":                              {noTemplates, nil},
		"PUT /v1/sandboxes/{id}/networkpolicy":                  {(*Handler).replacePolicy, &about{summary: "replace what a sandbox can reach", status: 200, in: networkPolicy{}, out: policyReply{}}},
		"/sandboxes/{id}/port/{port}/{rest...}":                 {(*Handler).port, nil},
		"/":                                                     {unknown, nil},
		inside("", "/proxy/{port}/{rest...}"):                   {(*Handler).port, nil},
		"/sandboxes/{id}/port/18080/credential-vault":           {noVault, nil},
		"/sandboxes/{id}/port/18080/credential-vault/{rest...}": {noVault, nil},
	}
	for _, path := range []string{"/sandboxes/{id}/port/18080/policy", "/v1/sandboxes/{id}/networkpolicy"} {
		all["GET "+path] = call{(*Handler).policy, &about{summary: "what the network of a sandbox is", status: 200, out: policyReply{}}}
		all["PATCH "+path] = call{(*Handler).patchPolicy, &about{summary: "add rules to what a sandbox can reach", status: 200, in: []egressRule{}, out: policyReply{}}}
		all["DELETE "+path] = call{(*Handler).trimPolicy, &about{summary: "remove rules of what a sandbox can reach, by target", status: 200, in: []string{}, out: policyReply{}}}
	}
	for pattern, c := range insideCalls() {
		all[pattern] = call{c.onSandbox, c.about}
	}
	return all
}

// insideCalls returns the calls that work in a sandbox.
func insideCalls() map[string]insideCall {
	return map[string]insideCall{
		inside("GET", "/ping"):                     {(*execd).ping, &about{summary: "whether the sandbox runs", status: 200}},
		inside("POST", "/command"):                 {(*execd).command, &about{summary: "run a command in a shell of its own", status: 200, in: commandRequest{}, out: event{}}},
		inside("DELETE", "/command"):               {(*execd).interrupt, &about{summary: "interrupt a command", status: 200, query: []string{"id"}}},
		inside("GET", "/command/{command}/{part}"): {(*execd).aboutCommand, &about{summary: "/command/status/ID is the status of a command, /command/ID/logs the output of a background command, /command/ID/resume the events of a command whose client has gone", status: 200, out: commandReply{}, query: []string{"cursor", "after_eid"}}},
		inside("POST", "/code"):                    {(*execd).runCode, &about{summary: "run a cell of code in a context, which keeps its state", status: 200, in: codeRequest{}, out: event{}}},
		inside("DELETE", "/code"):                  {(*execd).interruptCode, &about{summary: "interrupt the cell that runs in a context", status: 200, query: []string{"id"}}},
		inside("POST", "/code/context"):            {(*execd).createContext, &about{summary: "start a kernel of python, javascript, typescript or bash", status: 200, in: codeContext{}, out: codeContext{}}},
		inside("GET", "/code/contexts"):            {(*execd).listContexts, &about{summary: "list contexts", status: 200, out: []codeContext{}, query: []string{"language"}}},
		inside("DELETE", "/code/contexts"):         {(*execd).removeContexts, &about{summary: "end the contexts of a language", status: 200, query: []string{"language"}}},
		inside("GET", "/code/contexts/{name}"):     {(*execd).getContext, &about{summary: "describe a context", status: 200, out: codeContext{}}},
		inside("DELETE", "/code/contexts/{name}"):  {(*execd).removeContext, &about{summary: "end a context", status: 200}},
		inside("POST", "/session"):                 {(*execd).createSession, &about{summary: "start a shell that keeps its state", status: 200, in: sessionRequest{}, out: sessionReply{}}},
		inside("POST", "/session/{session}/run"):   {(*execd).runInSession, &about{summary: "run a command in a session", status: 200, in: commandRequest{}, out: event{}}},
		inside("DELETE", "/session/{session}"):     {(*execd).destroySession, &about{summary: "end a session", status: 200}},
		inside("POST", "/pty"):                     {(*execd).createPTY, &about{summary: "make a terminal with a shell, or a command", status: 201, in: ptyRequest{}, out: sessionReply{}}},
		inside("GET", "/pty/{session}"):            {(*execd).aboutPTY, &about{summary: "whether a terminal's shell runs", status: 200, out: ptyReply{}}},
		inside("GET", "/pty/{session}/ws"):         {(*execd).attachPTY, &about{summary: "attach to a terminal: WebSocket", status: 101, query: []string{"since", "takeover"}}},
		inside("DELETE", "/pty/{session}"):         {(*execd).destroySession, &about{summary: "end a terminal and all that it has started", status: 200}},
		inside("GET", "/metrics"):                  {(*execd).metrics, &about{summary: "how busy the machine is", status: 200, out: usageReply{}}},
		inside("GET", "/metrics/watch"):            {(*execd).watchMetrics, &about{summary: "how busy the machine is, an object each second", status: 200, out: usageReply{}}},
		inside("GET", "/v1/isolated/capabilities"): {(*execd).isolation, &about{summary: "that there are no isolated sessions", status: 200, out: capabilityReply{}}},
		inside("", "/v1/isolated/{rest...}"):       {without(noIsolated), nil},
		inside("", "/execution/{rest...}"):         {without(noOperations), nil},
		inside("POST", "/command/operations"):      {without(noOperations), nil},
		inside("POST", "/pty/operations"):          {without(noOperations), nil},
		inside("GET", "/files/info"):               {onFiles(onPaths(filecall.OpInfo), fileInfos), &about{summary: "describe files, by path", status: 200, out: map[string]fileReply{}, query: []string{"path"}}},
		inside("DELETE", "/files"):                 {onFiles(onPaths(filecall.OpRemove), done), &about{summary: "delete files", status: 200, query: []string{"path"}}},
		inside("POST", "/files/permissions"):       {onFiles(onModes(filecall.OpMode), done), &about{summary: "change modes and owners, by path", status: 200, in: map[string]modeRequest{}}},
		inside("POST", "/files/mv"):                {onFiles(moveRequest, done), &about{summary: "rename files and directories", status: 200, in: []moveBody{}}},
		inside("GET", "/files/search"):             {onFiles(searchRequest, fileList), &about{summary: "find files by their base names", status: 200, out: []fileReply{}, query: []string{"path", "pattern"}}},
		inside("POST", "/files/replace"):           {(*execd).replace, &about{summary: "replace text in files, by path", status: 200, in: map[string]filecall.Replace{}, out: map[string]replacedReply{}, query: []string{"verbose"}}},
		inside("POST", "/files/upload"):            {(*execd).upload, &about{summary: "write files: parts metadata and file in turn", status: 200, media: "multipart/form-data"}},
		inside("GET", "/files/download"):           {(*execd).download, &about{summary: "read a file, or a range of it", status: 200, media: "application/octet-stream", query: []string{"path", "offset", "limit"}}},
		inside("GET", "/directories/list"):         {onFiles(listRequest, fileList), &about{summary: "describe what is in a directory", status: 200, out: []fileReply{}, query: []string{"path", "depth"}}},
		inside("POST", "/directories"):             {onFiles(onModes(filecall.OpMkdir), done), &about{summary: "create directories, by path", status: 200, in: map[string]modeRequest{}}},
		inside("DELETE", "/directories"):           {onFiles(onPaths(filecall.OpRmdir), done), &about{summary: "delete directories with all that is in them", status: 200, query: []string{"path"}}},
	}
}

// inside returns the pattern of a path of execd; an empty method means all.
func inside(method, path string) string {
	pattern := "/sandboxes/{id}/port/" + execdPort + path
	if method == "" {
		return pattern
	}
	return method + " " + pattern
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	urlpath.Keep(r.URL)
	if own := unproxied(r.URL.EscapedPath()); own != r.URL.EscapedPath() {
		r.URL.RawPath = own
		r.URL.Path, _ = url.PathUnescape(own) // a part of what was parsed
	}
	if !h.Keyed(r) {
		if err := h.byToken(r); err != nil {
			h.fail(w, r, err)
			return
		}
	}
	if id, port, _, ok := portOf(r.URL.EscapedPath()); ok { // whose path the mux would clean
		r.SetPathValue("id", id)
		r.SetPathValue("port", port)
		h.serve((*Handler).port, w, r)
		return
	}
	if _, err := gate.Query(r); err != nil { // a server inside decides about its own, above
		h.fail(w, r, err)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// serve serves a request by a call's function.
func (h *Handler) serve(by func(*Handler, http.ResponseWriter, *http.Request) error, w http.ResponseWriter, r *http.Request) {
	if err := by(h, w, r); err != nil {
		h.fail(w, r, err)
	}
}

// inside returns a handle on the running sandbox of a request.
func (h *Handler) inside(r *http.Request) (*service.Inside, error) {
	return h.service.Inside(r.Context(), service.CallerOf(r.Context()), r.PathValue("id"))
}

// errUnknown is the reply to a path or method that no API has.
var errUnknown = &fault{http.StatusNotFound, "NOT_FOUND", "the API has no such method and path"}

func unknown(*Handler, http.ResponseWriter, *http.Request) error { return errUnknown }
