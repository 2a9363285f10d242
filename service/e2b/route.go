package e2b

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"wolffia/runtime"
)

// The ports of a sandbox that the service itself serves.
const (
	envdPort = 49983 // processes and files
	codePort = 49999 // the code interpreter
)

// A kind says what a request is about.
type kind int

const (
	other     kind = iota // not E2B's
	control               // the control API
	traffic               // a port of a sandbox
	signed                // a file of the sandbox whose token has signed the URL
	inVolumes             // files of a volume
	inUploads             // files of a build
)

// A route is where a request goes.
type route struct {
	kind kind
	id   string // of the sandbox; with traffic only
	port int    // with traffic only
}

// The headers that name a sandbox and its port.
const (
	idHeader   = "E2b-Sandbox-Id"
	portHeader = "E2b-Sandbox-Port"
)

// roots are the first parts of the paths of the control API, of those that wolffia serves and of
// others.
var roots = []string{
	"access-tokens", "admin", "api-keys", "default-templates", "nodes", "sandboxes", "secrets",
	"snapshots", "teams", "templates", "v2", "v3", "volumes",
}

// routeOf returns where a request goes. What names a sandbox comes first: its path is the one of a
// server inside.
func routeOf(r *http.Request) route {
	if id := r.Header.Get(idHeader); id != "" {
		return trafficTo(id, r.Header.Get(portHeader))
	}
	if port, id, ok := hostOf(r.Host); ok {
		return trafficTo(id, port)
	}
	first, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case first == "files" && rest == "" && hasSignature(r.URL):
		return route{kind: signed}
	case first == "volumecontent":
		return route{kind: inVolumes}
	case first == "templatefiles":
		return route{kind: inUploads}
	case first == "sandboxes" && ofOpenSandbox(rest):
		return route{}
	case slices.Contains(roots, first):
		return route{kind: control}
	}
	return route{}
}

// ofOpenSandbox reports whether a path below /sandboxes/ is one of OpenSandbox's: ID/port/PORT.
func ofOpenSandbox(rest string) bool {
	_, call, _ := strings.Cut(rest, "/")
	return strings.HasPrefix(call, "port/")
}

func hasSignature(u *url.URL) bool {
	q, err := url.ParseQuery(u.RawQuery)
	return err == nil && q.Get("signature") != ""
}

// trafficTo returns the route to a port of a sandbox, as a request names both. A port that is none
// is 0.
func trafficTo(id, port string) route {
	n, err := strconv.Atoi(port)
	if err != nil || !runtime.IsPort(n) {
		n = 0
	}
	return route{kind: traffic, id: id, port: n}
}

// hostOf splits the host <port>-<id>.<domain> of a request.
func hostOf(host string) (port, id string, ok bool) {
	label, _, dotted := strings.Cut(host, ".")
	port, id, dashed := strings.Cut(label, "-")
	n, err := strconv.Atoi(port)
	return port, id, dotted && dashed && err == nil && runtime.IsPort(n) && runtime.IsID(id)
}
