package opensandbox

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"wolffia/runtime"
	"wolffia/service/port"
)

// port passes a request on to the server at a port inside, also one that changes to WebSocket.
func (h *Handler) port(w http.ResponseWriter, r *http.Request) error {
	in, err := h.inside(r)
	if err != nil {
		return err
	}
	text := r.PathValue("port")
	if text == "" || text == execdPort || text == egressPort {
		return errUnknown
	}
	number, err := strconv.Atoi(text)
	if err != nil || !runtime.IsPort(number) {
		return invalid("port %q: it must be a number from 1 to 65535", text)
	}
	_, _, rest, _ := portOf(r.URL.EscapedPath())
	return port.Serve(w, r, &port.Request{
		Inside: in, Port: number, Path: "/" + rest, BodyLimit: h.opts.BodyLimit, WriteLimit: h.opts.WriteLimit,
		Fail: func(w http.ResponseWriter, r *http.Request, err error) {
			h.fail(w, r, &fault{http.StatusBadGateway, "PORT_UNREACHABLE", err.Error()})
		},
	})
}

// unproxied returns the path of a port's endpoint for the one that OpenSandbox's own proxy has:
// /v1/sandboxes/ID/proxy/PORT/REST. Other paths stay.
func unproxied(path string) string {
	rest, has := strings.CutPrefix(path, "/v1/sandboxes/")
	id, call, _ := strings.Cut(rest, "/")
	to, is := strings.CutPrefix(call, "proxy/")
	if !has || !is {
		return path
	}
	return "/sandboxes/" + id + "/port/" + to
}

// portOf splits the path of a request to a port inside, as it was sent:
// /sandboxes/ID/port/PORT/REST, or /sandboxes/ID/port/44772/proxy/PORT/REST. REST is the path of
// the server inside, whatever it is. ok is false for other paths, those of the API among them.
func portOf(path string) (id, port, rest string, ok bool) {
	part := strings.SplitN(path, "/", 6)
	if len(part) < 6 || part[0] != "" || part[1] != "sandboxes" || part[3] != "port" {
		return "", "", "", false
	}
	id, port, rest = part[2], part[4], part[5]
	if port == execdPort {
		if rest, ok = strings.CutPrefix(rest, "proxy/"); !ok {
			return "", "", "", false
		}
		if port, rest, ok = strings.Cut(rest, "/"); !ok {
			return "", "", "", false
		}
	}
	id, errID := url.PathUnescape(id)
	port, errPort := url.PathUnescape(port)
	return id, port, rest, errID == nil && errPort == nil && id != "" && port != "" && port != execdPort && port != egressPort
}
