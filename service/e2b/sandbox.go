package e2b

import (
	"cmp"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	goruntime "runtime"
	"strings"
	"time"

	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/e2b/envd"
)

// A note is what the service keeps of a create request with the sandbox.
type note struct {
	Template   string          `json:"template,omitempty"` // as the request names it
	AutoResume bool            `json:"autoResume,omitempty"`
	Private    bool            `json:"private,omitempty"`  // its ports need the token of traffic
	Internet   *bool           `json:"internet,omitempty"` // allow_internet_access
	Network    *networkRequest `json:"network,omitempty"`
	Volumes    []volumeMount   `json:"volumes,omitempty"`
}

// noteOf returns what was noted of a sandbox; the zero note for one that another interface has
// made.
func noteOf(b *service.Sandbox) (n note) {
	_ = json.Unmarshal([]byte(b.Note), &n) // else it is not of this interface
	return n
}

// text returns the note as the service keeps it.
func (n note) text() (string, error) {
	b, err := json.Marshal(n)
	return string(b), err
}

// baseTemplate is the template of sandboxes on what the service's own configuration says: the
// host's system, where that names no image.
const baseTemplate = "base"

// templateOf returns the name of the template of a sandbox.
func templateOf(b *service.Sandbox) string {
	return cmp.Or(noteOf(b).Template, b.Requested, baseTemplate)
}

// A sandboxReply is a sandbox that was created, or connected to.
type sandboxReply struct {
	ID           string `json:"sandboxID"`
	Template     string `json:"templateID"`
	Alias        string `json:"alias"`
	Client       string `json:"clientID"`
	EnvdVersion  string `json:"envdVersion"`
	EnvdToken    string `json:"envdAccessToken"`
	TrafficToken string `json:"trafficAccessToken"`
	Domain       string `json:"domain"`
}

// clientID is what the SDKs want to be there.
const clientID = "wolffia"

func (h *Handler) describe(r *http.Request, b *service.Sandbox) *sandboxReply {
	return &sandboxReply{
		ID: b.ID, Template: templateOf(b), Alias: templateOf(b), Client: clientID, EnvdVersion: envd.Version,
		EnvdToken: h.service.Token(envdToken, b.ID), TrafficToken: h.service.Token(trafficToken, b.ID),
		Domain: domainOf(r.Host),
	}
}

// domainOf returns the domain whose names <port>-<id>.<domain> lead to a host, as a request names
// that: below localhost all names lead to this machine.
func domainOf(host string) string {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = host, ""
	}
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err != nil {
		return host
	}
	if port == "" {
		return "localhost"
	}
	return net.JoinHostPort("localhost", port)
}

// A listedReply is a sandbox in a list.
type listedReply struct {
	ID          string            `json:"sandboxID"`
	Template    string            `json:"templateID"`
	Alias       string            `json:"alias"`
	Client      string            `json:"clientID"`
	Started     time.Time         `json:"startedAt"`
	End         time.Time         `json:"endAt"`
	State       string            `json:"state"`
	CPUs        int               `json:"cpuCount"`
	MemoryMB    int64             `json:"memoryMB"`
	DiskMB      int64             `json:"diskSizeMB"`
	EnvdVersion string            `json:"envdVersion"`
	Metadata    map[string]string `json:"metadata"`
	Volumes     []volumeMount     `json:"volumeMounts,omitempty"`
}

// A detailReply is a sandbox that was asked for.
type detailReply struct {
	listedReply
	EnvdToken string          `json:"envdAccessToken"`
	Domain    string          `json:"domain"`
	Internet  *bool           `json:"allowInternetAccess,omitempty"`
	Network   *networkRequest `json:"network,omitempty"`
	Lifecycle lifecycle       `json:"lifecycle"`
}

type lifecycle struct {
	OnTimeout  string `json:"onTimeout"`
	AutoResume bool   `json:"autoResume"`
}

// The states of E2B.
const (
	running = "running"
	paused  = "paused"
)

// stateOf returns the state of a sandbox: one that has failed can be started again, as a paused
// one.
func stateOf(b *service.Sandbox) string {
	if b.Usable() || b.Starting {
		return running
	}
	return paused
}

// list describes a sandbox. Its limits are those that it has; without one, what the machine has for
// the processors, and 0.
func list(b *service.Sandbox) *listedReply {
	const mib = 1 << 20
	l := &listedReply{
		ID: b.ID, Template: templateOf(b), Alias: templateOf(b), Client: clientID,
		EnvdVersion: envd.Version, State: stateOf(b),
		Started: b.CreatedAt.UTC(), End: b.End().UTC(), Metadata: b.Metadata, Volumes: noteOf(b).Volumes,
		CPUs: goruntime.NumCPU(), MemoryMB: b.Resources.Memory / mib, DiskMB: b.Resources.Disk / mib,
	}
	if b.End().IsZero() { // never
		l.End = l.Started.Add(runtime.MaxLifetime)
	}
	if b.Resources.CPUs > 0 {
		l.CPUs = max(1, int(b.Resources.CPUs))
	}
	return l
}

// get serves GET /sandboxes/{id}.
func (h *Handler) get(w http.ResponseWriter, r *http.Request) error {
	b, err := h.sandbox(r)
	if err != nil {
		return err
	}
	n := noteOf(b)
	d := &detailReply{
		listedReply: *list(b), EnvdToken: h.service.Token(envdToken, b.ID), Domain: domainOf(r.Host),
		Internet: n.Internet, Network: n.Network, Lifecycle: lifecycle{"kill", n.AutoResume},
	}
	if b.EndsStopped {
		d.Lifecycle.OnTimeout = "pause"
	}
	if b.Network == runtime.NetworkFiltered && n.Network != nil { // it may have changed
		egress, err := h.service.Egress(r.Context(), service.CallerOf(r.Context()), b.ID)
		if err != nil {
			return err
		}
		if d.Network.AllowOut = nil; egress != nil {
			d.Network.AllowOut = egress.Allow
		}
	}
	h.reply(w, http.StatusOK, d)
	return nil
}

// sandbox returns the sandbox of a request.
func (h *Handler) sandbox(r *http.Request) (*service.Sandbox, error) {
	return h.service.Get(r.Context(), service.CallerOf(r.Context()), r.PathValue("id"))
}
