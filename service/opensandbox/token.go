package opensandbox

import (
	"net/http"
	"strings"

	"wolffia/runtime"
	"wolffia/service"
)

// tokenHeader has the token of a sandbox's endpoints, which GET /endpoints returns: SDKs send no API
// key to an endpoint.
const tokenHeader = "OpenSandbox-Secure-Access"

// endpointToken is the purpose of the token, for [service.Service.Token].
const endpointToken = "opensandbox endpoint"

// errToken is the error for a token that is not that of the sandbox in the path.
var errToken = &fault{http.StatusUnauthorized, "INVALID_TOKEN", tokenHeader + ": not the token of this sandbox: ask for its endpoint again"}

// Keyed reports whether a request needs an API key. One to an endpoint may have a token, which
// ServeHTTP checks.
func (h *Handler) Keyed(r *http.Request) bool {
	return r.Header.Get(tokenHeader) == "" || !strings.HasPrefix(r.URL.Path, "/sandboxes/")
}

// byToken admits a request that has a token, for the owner of the sandbox.
func (h *Handler) byToken(r *http.Request) error {
	rest := strings.TrimPrefix(r.URL.EscapedPath(), "/sandboxes/")
	id, call, _ := strings.Cut(rest, "/")
	if !runtime.IsID(id) || !strings.HasPrefix(call, "port/") || !h.service.IsToken(r.Header.Get(tokenHeader), endpointToken, id) {
		return errToken
	}
	b, err := h.service.Get(r.Context(), service.Caller{All: true}, id)
	if err != nil {
		return err
	}
	caller := b.Caller()
	r.Header.Del(tokenHeader) // a server inside must not have it
	*r = *r.WithContext(service.WithCaller(r.Context(), caller))
	return h.service.AdmitRequest(caller)
}
