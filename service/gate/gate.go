package gate

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"

	"wolffia/runtime"
	"wolffia/service"
)

// A Refusal is the error for a request that is not admitted.
type Refusal struct {
	Status  int    // of HTTP: 401, 403
	Code    string // for programs
	Message string
}

func (r *Refusal) Error() string { return r.Message }

// The refusals.
var (
	errNoKey    = &Refusal{http.StatusUnauthorized, "MISSING_API_KEY", "the request has no API key: send it in the header OPEN-SANDBOX-API-KEY"}
	errWrongKey = &Refusal{http.StatusUnauthorized, "INVALID_API_KEY", "the API key is not valid"}
	errHost     = &Refusal{http.StatusForbidden, "FOREIGN_HOST", "the request's Host is not a loopback address or localhost"}
	errOrigin   = &Refusal{http.StatusForbidden, "FOREIGN_ORIGIN", "the request comes from a web page of another origin"}
)

// The headers with the API key; the first that is there counts.
const (
	keyHeader      = "Open-Sandbox-Api-Key"
	bearerHeader   = "Authorization" // Bearer KEY
	shortKeyHeader = "X-Api-Key"     // of SWE-ReX; what is in a sandbox may want one of its own
)

// keyOf returns the API key of a request, and the header that it is in.
func keyOf(h http.Header) (key, in string) {
	if key := h.Get(keyHeader); key != "" {
		return key, keyHeader
	}
	scheme, key, _ := strings.Cut(h.Get(bearerHeader), " ")
	if key = strings.TrimSpace(key); strings.EqualFold(scheme, "Bearer") && key != "" {
		return key, bearerHeader
	}
	return h.Get(shortKeyHeader), shortKeyHeader
}

// Strip removes the API key from the headers of a request that goes on into a sandbox.
func Strip(h http.Header) {
	_, in := keyOf(h)
	h.Del(in)
	h.Del(keyHeader)
	h.Del(bearerHeader)
}

// A Gate admits requests. It is safe for concurrent use.
type Gate struct {
	loopback bool
	keys     atomic.Pointer[Keys]
}

// New returns a gate. With keys each request needs one; nil means that the listener has
// checked the client. loopback says that the service listens on a loopback address.
func New(keys *Keys, loopback bool) *Gate {
	g := &Gate{loopback: loopback}
	g.keys.Store(keys)
	return g
}

// SetKeys replaces the keys of a gate that has keys.
// Precondition: keys is not nil.
func (g *Gate) SetKeys(keys *Keys) { g.keys.Store(keys) }

// Checked returns a [*Refusal] for a request that a web page may have caused.
func (g *Gate) Checked(r *http.Request) error {
	if !g.loopback {
		return nil
	}
	if !localHost(r.Host) {
		return errHost
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" || u.Host != r.Host {
			return errOrigin
		}
	}
	return nil
}

// Admit returns the caller of a request, or a [*Refusal].
func (g *Gate) Admit(r *http.Request) (service.Caller, error) {
	if err := g.Checked(r); err != nil {
		return service.Caller{}, err
	}
	keys := g.keys.Load()
	if keys == nil {
		return service.Caller{All: true}, nil
	}
	key, _ := keyOf(r.Header)
	if key == "" {
		return service.Caller{}, errNoKey
	}
	caller, ok := keys.caller(key)
	if !ok {
		return service.Caller{}, errWrongKey
	}
	return caller, nil
}

// Query returns the query of a request. A part that cannot be read is an error, where [url.URL.Query] leaves it out: the
// request would then be about everything, or the default.
func Query(r *http.Request) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "query: %w: encode ';' as %%3B and '%%' as %%25", err)
	}
	return values, nil
}

// localHost reports whether a Host header names this machine's loopback.
func localHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if lower := strings.ToLower(name); lower == "localhost" || strings.HasSuffix(lower, ".localhost") { // RFC 6761, section 6.3
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Zone() == "" && ip.Unmap().IsLoopback()
}
