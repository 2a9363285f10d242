package opensandbox

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"wolffia/runtime"
	"wolffia/service"
)

// A sandboxReply is a sandbox on the wire. The fields in snake case, and State, are copies
// for clients that read those.
type sandboxReply struct {
	ID         string            `json:"id"`
	Image      *imageReply       `json:"image,omitempty"`
	Platform   platform          `json:"platform"`
	Status     statusReply       `json:"status"`
	Metadata   map[string]string `json:"metadata"`
	Entrypoint []string          `json:"entrypoint"`
	ExpiresAt  *time.Time        `json:"expiresAt,omitempty"`
	CreatedAt  time.Time         `json:"createdAt"`

	State      string     `json:"state"`
	ExpiresAt2 *time.Time `json:"expires_at,omitempty"`
	CreatedAt2 time.Time  `json:"created_at"`
}

// A platform is that of a sandbox.
type platform struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
}

type imageReply struct {
	URI string `json:"uri"`
}

type statusReply struct {
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// hostImage is the name of the image of sandboxes that run on what the service's own
// configuration says: the host's system, where that names no image.
const hostImage = "host"

// describe returns a sandbox as the API has it.
func (h *Handler) describe(s *service.Sandbox) *sandboxReply {
	d := &sandboxReply{
		ID: s.ID, Image: &imageReply{s.Requested}, Metadata: s.Metadata, Entrypoint: s.Entrypoint,
		CreatedAt: s.CreatedAt.UTC(), CreatedAt2: s.CreatedAt.UTC(), Platform: platform{"linux", goruntime.GOARCH},
	}
	if s.Requested == "" {
		d.Image.URI = hostImage
	}
	if len(d.Entrypoint) == 0 {
		d.Entrypoint = service.IdleEntrypoint
	}
	if !s.ExpiresAt.IsZero() {
		end := s.ExpiresAt.UTC()
		d.ExpiresAt, d.ExpiresAt2 = &end, &end
	}
	d.Status = statusOf(s)
	if d.Status.State == "Running" {
		d.Status.Message = limitsMessage(h.service.Limits(s.ID))
	}
	d.State = d.Status.State
	return d
}

// statusOf returns the state of a sandbox as the API has it.
func statusOf(s *service.Sandbox) statusReply {
	switch {
	case s.Starting:
		return statusReply{State: "Pending", Reason: "STARTING"}
	case s.State == runtime.StateRunning:
		return statusReply{State: "Running", Reason: "RUNNING"}
	case s.State == runtime.StateHibernated:
		return statusReply{State: "Running", Reason: "HIBERNATED", Message: "its memory is kept on the disk until its next use"}
	case s.WakesOnUse:
		return statusReply{State: "Running", Reason: "IDLE", Message: "its processes stand still until its next use"}
	case s.State == runtime.StatePaused:
		return statusReply{State: "Paused", Reason: "FROZEN", Message: "its processes stand still, with what they have in memory"}
	case s.State == runtime.StateStopped:
		return statusReply{State: "Paused", Reason: "STOPPED", Message: "its processes have ended, and what they had in memory is lost; its files stay"}
	case s.State == runtime.StateCreated:
		return statusReply{State: "Failed", Reason: "START_INTERRUPTED", Message: "the service ended before the sandbox was started: delete it"}
	}
	return statusReply{State: "Failed", Reason: "DEAD", Message: s.Reason}
}

// limitsMessage says which limits are not kept exactly; empty if all are.
func limitsMessage(l *runtime.LimitsState) string {
	if l == nil {
		return ""
	}
	var weak []string
	for _, limit := range []struct {
		name string
		by   runtime.Enforcement
	}{{"memory", l.Memory}, {"cpu", l.CPUs}, {"pids", l.PIDs}} {
		switch limit.by {
		case runtime.ByNothing:
			weak = append(weak, "the limit of "+limit.name+" is not enforced on this host")
		case runtime.ByRlimit:
			weak = append(weak, "the limit of "+limit.name+" is enforced for each process only")
		}
	}
	return strings.Join(weak, "; ")
}

// create serves POST /v1/sandboxes.
func (h *Handler) create(w http.ResponseWriter, r *http.Request) error {
	var req createRequest
	if err := h.decode(w, r, smallBody, &req); err != nil {
		return err
	}
	caller := service.CallerOf(r.Context())
	if req.SecureAccess && caller.Key == "" {
		return unsupported("secureAccess: the service admits requests without a key: serve with --api-keys")
	}
	params, err := req.params()
	if err != nil {
		return err
	}
	params.Key = r.Header.Get("Idempotency-Key")
	if len(params.Key) > 255 {
		return invalid("Idempotency-Key: more than 255 bytes")
	}
	if !caller.All {
		params.Owner = caller.Owner
	}
	s, _, err := h.service.Create(r.Context(), params)
	if err != nil {
		if runtime.Class(err) == runtime.ErrNotFound && req.SnapshotID == "" { // of an image, not of a sandbox
			return &fault{http.StatusBadRequest, "IMAGE_NOT_FOUND", err.Error()}
		}
		return err
	}
	w.Header().Set("Location", "/v1/sandboxes/"+s.ID)
	h.opts.JSON(w, http.StatusAccepted, h.describe(s))
	return nil
}

// get serves GET /v1/sandboxes/{id}.
func (h *Handler) get(w http.ResponseWriter, r *http.Request) error {
	s, err := h.service.Get(r.Context(), service.CallerOf(r.Context()), r.PathValue("id"))
	if err != nil {
		return err
	}
	h.opts.JSON(w, http.StatusOK, h.describe(s))
	return nil
}

// maxPage is the largest page of a list.
const maxPage = 200

// states are the states that a list can be restricted to.
var states = []string{"Pending", "Running", "Pausing", "Paused", "Resuming", "Stopping", "Terminated", "Failed"}

// list serves GET /v1/sandboxes.
func (h *Handler) list(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	for _, s := range q["state"] {
		if !slices.Contains(states, s) {
			return invalid("state %q: it must be one of %s", s, strings.Join(states, ", "))
		}
	}
	wanted, err := url.ParseQuery(q.Get("metadata"))
	if err != nil {
		return invalid("metadata: it must be KEY=VALUE pairs with & between them")
	}
	page, size, err := pageOf(q)
	if err != nil {
		return err
	}
	all, err := h.service.List(r.Context(), service.CallerOf(r.Context()))
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(s *service.Sandbox) bool {
		if len(q["state"]) > 0 && !slices.Contains(q["state"], statusOf(s).State) {
			return true
		}
		for k, values := range wanted {
			for _, v := range values {
				if has, is := s.Metadata[k]; !is || has != v {
					return true
				}
			}
		}
		return false
	})
	begin, end, pages := paged(len(all), page, size)
	items := []*sandboxReply{}
	for _, s := range all[begin:end] {
		items = append(items, h.describe(s))
	}
	h.opts.JSON(w, http.StatusOK, listReply{items, pages})
	return nil
}

// pageOf returns the page that a query asks for, and how many items it has.
func pageOf(q url.Values) (page, size int, err error) {
	if page, err = number(q, "page", 1, 1<<30); err == nil {
		size, err = number(q, "pageSize", 20, maxPage)
	}
	return page, size, err
}

// paged returns which of n items are on a page, from 1 on.
func paged(n, page, size int) (begin, end int, p pagination) {
	begin = min(n, (page-1)*size)
	return begin, min(n, begin+size), pagination{page, size, n, (n + size - 1) / size, begin+size < n}
}

// A listReply is a page of a list.
type listReply struct {
	Items      []*sandboxReply `json:"items"`
	Pagination pagination      `json:"pagination"`
}

type pagination struct {
	Page        int  `json:"page"`
	PageSize    int  `json:"pageSize"`
	TotalItems  int  `json:"totalItems"`
	TotalPages  int  `json:"totalPages"`
	HasNextPage bool `json:"hasNextPage"`
}

// number returns a number of the query, from 1 to most.
func number(q url.Values, name string, byDefault, most int) (int, error) {
	text := q.Get(name)
	if text == "" {
		return byDefault, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, invalid("%s %q: it must be a number from 1 to %d", name, text, most)
	}
	return n, nil
}

// offset returns a number of the query, from 0 on; 0 if the query does not have it.
func offset(r *http.Request, name, what string) (uint64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, invalid("%s %q: it must be %s", name, text, what)
	}
	return n, nil
}

// destroy serves DELETE /v1/sandboxes/{id}.
func (h *Handler) destroy(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if err := h.service.Destroy(r.Context(), service.CallerOf(r.Context()), id); err != nil {
		return err
	}
	h.execd.kept.Leave(id)
	h.empty(w, http.StatusNoContent)
	return nil
}

// pause serves POST /v1/sandboxes/{id}/pause.
func (h *Handler) pause(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	frozen, err := h.service.Freeze(r.Context(), service.CallerOf(r.Context()), id)
	if err != nil {
		return err
	}
	if !frozen {
		h.execd.kept.Leave(id)
	}
	h.empty(w, http.StatusAccepted)
	return nil
}

// resume serves POST /v1/sandboxes/{id}/resume.
func (h *Handler) resume(w http.ResponseWriter, r *http.Request) error {
	if err := h.service.Start(r.Context(), service.CallerOf(r.Context()), r.PathValue("id")); err != nil {
		return err
	}
	h.empty(w, http.StatusAccepted)
	return nil
}

// An expiration is when a sandbox ends.
type expiration struct {
	ExpiresAt time.Time `json:"expiresAt"`
}

// renew serves POST /v1/sandboxes/{id}/renew-expiration.
func (h *Handler) renew(w http.ResponseWriter, r *http.Request) error {
	var req expiration
	if err := h.decode(w, r, smallBody, &req); err != nil {
		return err
	}
	caller, id := service.CallerOf(r.Context()), r.PathValue("id")
	s, err := h.service.Get(r.Context(), caller, id)
	if err != nil {
		return err
	}
	if !req.ExpiresAt.After(time.Now()) || !s.ExpiresAt.IsZero() && !req.ExpiresAt.After(s.ExpiresAt) {
		return &fault{http.StatusBadRequest, "INVALID_EXPIRATION", "expiresAt must be in the future, and later than the present one"}
	}
	if s, err = h.service.Renew(r.Context(), caller, id, req.ExpiresAt); err != nil {
		return err
	}
	h.opts.JSON(w, http.StatusOK, expiration{s.ExpiresAt.UTC()})
	return nil
}

// An endpointReply is where a port can be reached.
type endpointReply struct {
	Endpoint string            `json:"endpoint"`          // HOST:PORT or HOST:PORT/PATH, without a scheme
	Headers  map[string]string `json:"headers,omitempty"` // what requests to it must have
}

// endpoint serves GET /v1/sandboxes/{id}/endpoints/{port}.
func (h *Handler) endpoint(w http.ResponseWriter, r *http.Request) error {
	s, err := h.service.Get(r.Context(), service.CallerOf(r.Context()), r.PathValue("id"))
	if err != nil {
		return err
	}
	port, err := strconv.ParseUint(r.PathValue("port"), 10, 16)
	if err != nil || port == 0 {
		return invalid("port %q: it must be a number from 1 to 65535", r.PathValue("port"))
	}
	if r.URL.Query().Get("expires") != "" {
		return unsupported("expires: the service signs no endpoints: a request to one needs the API key, as all requests do")
	}
	text := strconv.FormatUint(port, 10)
	address := fmt.Sprintf("%s/sandboxes/%s/port/%s", r.Host, s.ID, text)
	if s.Network == runtime.NetworkHost && text != execdPort && text != egressPort { // its ports are the host's
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		h.opts.JSON(w, http.StatusOK, endpointReply{Endpoint: net.JoinHostPort(strings.Trim(host, "[]"), text)})
		return nil
	}
	reply := endpointReply{Endpoint: address}
	if service.CallerOf(r.Context()).Key != "" {
		reply.Headers = map[string]string{tokenHeader: h.service.Token(endpointToken, s.ID)}
	}
	h.opts.JSON(w, http.StatusOK, reply)
	return nil
}

// metricsEvent serves POST /v1/metrics/events, which clients send without need: what it says
// is not recorded.
func (h *Handler) metricsEvent(w http.ResponseWriter, _ *http.Request) error {
	h.empty(w, http.StatusNoContent)
	return nil
}
