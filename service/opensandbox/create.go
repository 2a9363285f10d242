package opensandbox

import (
	"encoding/json"
	"maps"
	"math"
	"regexp"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"wolffia/fields"
	"wolffia/network"
	"wolffia/runtime"
	"wolffia/service"
)

// A createRequest is the body of POST /v1/sandboxes.
type createRequest struct {
	Image *struct {
		URI  string          `json:"uri"`
		Auth json.RawMessage `json:"auth"`
	} `json:"image"`
	SnapshotID     string            `json:"snapshotId"`
	Entrypoint     []string          `json:"entrypoint"`
	Timeout        *int64            `json:"timeout"` // seconds; nil: until it is deleted
	ResourceLimits map[string]string `json:"resourceLimits"`
	Env            map[string]string `json:"env"`
	Metadata       map[string]string `json:"metadata"`
	NetworkPolicy  *networkPolicy    `json:"networkPolicy"`
	// ResourceRequests are refused. With SecureAccess each request to an endpoint needs its token,
	// or a key.
	ResourceRequests map[string]string `json:"resourceRequests"`
	SecureAccess     bool              `json:"secureAccess"`
	CredentialProxy  *struct {
		Enabled bool `json:"enabled"`
	} `json:"credentialProxy"`
	Volumes      []volumeRequest   `json:"volumes"`
	Platform     *platform         `json:"platform"`
	Extensions   map[string]string `json:"extensions"`
	fields.Asked                   // what OpenSandbox's API has no fields for
}

// UnmarshalJSON implements [json.Unmarshaler].
func (q *createRequest) UnmarshalJSON(body []byte) (err error) {
	type members createRequest
	if err = json.Unmarshal(body, (*members)(q)); err == nil {
		q.Values, err = fields.DecodeRequest(body)
	}
	return err
}

type networkPolicy struct {
	DefaultAction string       `json:"defaultAction"`
	Egress        []egressRule `json:"egress"`
}

type egressRule struct {
	Action string `json:"action"`
	Target string `json:"target"`
}

// minTimeout is the shortest timeout of a sandbox, in seconds.
const minTimeout = 60

// lifetime returns how long a sandbox lives; 0: no end was asked for.
func lifetime(timeout *int64) (time.Duration, error) {
	if timeout == nil {
		return 0, nil
	}
	if *timeout < minTimeout || *timeout > int64(runtime.MaxLifetime/time.Second) {
		return 0, invalid("timeout %d: it must be from %d to %d seconds, or absent for a sandbox that is deleted by hand", *timeout, minTimeout, int64(runtime.MaxLifetime/time.Second))
	}
	return time.Duration(*timeout) * time.Second, nil
}

// params returns what a request asks for.
func (q *createRequest) params() (*service.Params, error) {
	switch {
	case q.SnapshotID != "" && q.Image != nil:
		return nil, invalid("image, snapshotId: name one of them")
	case q.SnapshotID == "" && (q.Image == nil || q.Image.URI == ""):
		return nil, invalid("image: image.uri is missing: name an image, or %q for the host's system", hostImage)
	case q.Image != nil && len(q.Image.Auth) > 0 && string(q.Image.Auth) != "null":
		return nil, unsupported("image.auth: images are pulled with the credentials of the service's user: log in there")
	case q.CredentialProxy != nil && q.CredentialProxy.Enabled:
		return nil, unsupported("credentialProxy: the service has none")
	case len(q.ResourceRequests) > 0:
		return nil, unsupported("resourceRequests: nothing is reserved for a sandbox: use resourceLimits")
	case q.Platform != nil && (q.Platform.OS != "linux" || q.Platform.Arch != goruntime.GOARCH):
		return nil, unsupported("platform %s/%s: sandboxes here are linux/%s", q.Platform.OS, q.Platform.Arch, goruntime.GOARCH)
	}
	own, err := withExtensions(q.Values, q.Extensions)
	if err != nil {
		return nil, err
	}
	p := &service.Params{
		Entrypoint: q.Entrypoint, Env: q.Env, Metadata: q.Metadata,
		Settings: own, Snapshot: q.SnapshotID,
	}
	if p.Volumes, err = volumes(q.Volumes); err != nil {
		return nil, err
	}
	if q.Image != nil && q.Image.URI != hostImage {
		p.Image = q.Image.URI
	}
	if len(q.Entrypoint) > 0 && q.Entrypoint[0] == "" {
		return nil, invalid("entrypoint: the program's name is empty")
	}
	if p.TTL, err = lifetime(q.Timeout); err != nil {
		return nil, err
	}
	if p.Network, p.Egress, err = q.NetworkPolicy.reach(); err != nil {
		return nil, err
	}
	if err := checkMetadata(q.Metadata); err != nil {
		return nil, err
	}
	p.Resources, err = resources(q.ResourceLimits)
	return p, err
}

// reach returns the network that a policy asks for; empty if it is nil. Allowed names are
// reached on the default ports.
func (p *networkPolicy) reach() (runtime.Network, *network.Policy, error) {
	if p == nil {
		return "", nil, nil
	}
	if p.DefaultAction != "" && p.DefaultAction != "deny" {
		return "", nil, unsupported("networkPolicy: defaultAction %q: a sandbox reaches nothing that no rule allows: use \"deny\", with egress rules that allow names", p.DefaultAction)
	}
	egress := &network.Policy{}
	for _, e := range p.Egress {
		if e.Action == "allow" {
			egress.Allow = append(egress.Allow, e.Target)
		}
	}
	rules, err := egress.Compile()
	if err != nil {
		return "", nil, invalid("networkPolicy: %v", err)
	}
	for _, e := range p.Egress {
		switch {
		case e.Action == "deny" && len(egress.Allow) > 0 && mayBeKnown(rules, e.Target):
			return "", nil, unsupported("networkPolicy: egress to %q: another rule allows it, and a rule cannot take back what another allows: allow the names that are needed one by one", e.Target)
		case e.Action != "deny" && e.Action != "allow":
			return "", nil, invalid("networkPolicy: egress action %q: it must be \"allow\" or \"deny\"", e.Action)
		}
	}
	if len(egress.Allow) == 0 {
		return runtime.NetworkNone, nil, nil
	}
	return runtime.NetworkFiltered, egress, nil
}

// mayBeKnown reports whether rules may allow a target.
func mayBeKnown(rules *network.Compiled, target string) bool {
	name, err := network.NormalName(target)
	return err != nil || rules.Known(name) // not a name: several, or an address
}

// The forms of what a request names. They are compiled when they are first used: wolffia,
// each time that it starts, would need 0.6 ms for them.
var (
	labelName  = lazily(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	labelValue = lazily(`^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$`)
	prefixName = lazily(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
)

// lazily returns a function that compiles an expression once.
func lazily(form string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(form) })
}

// checkMetadata checks metadata by the rules of Kubernetes for labels.
func checkMetadata(m map[string]string) error {
	wrong := func(k, why string) error {
		return &fault{400, "SANDBOX::INVALID_METADATA_LABEL", "metadata " + strconv.Quote(k) + ": " + why}
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		name := k
		if prefix, rest, has := strings.Cut(k, "/"); has {
			switch {
			case prefix == "opensandbox.io" || strings.HasPrefix(prefix, "wolffia."):
				return wrong(k, "the prefix is reserved")
			case !prefixName().MatchString(prefix):
				return wrong(k, "what is before the slash must be a domain name in lower case")
			}
			name = rest
		}
		switch {
		case strings.HasPrefix(k, "wolffia."):
			return wrong(k, "keys that begin with wolffia. are reserved")
		case !labelName().MatchString(name):
			return wrong(k, "a key has up to 63 letters, digits and any of ._-, the first and the last a letter or digit")
		case !labelValue().MatchString(m[k]):
			return wrong(k, "a value has up to 63 letters, digits and any of ._-, the first and the last a letter or digit")
		}
	}
	return nil
}

// units are the suffixes of amounts, as in Kubernetes.
var units = []struct {
	suffix string
	factor float64
}{
	{"Ki", 1 << 10},
	{"Mi", 1 << 20},
	{"Gi", 1 << 30},
	{"Ti", 1 << 40},
	{"m", 1e-3},
	{"k", 1e3},
	{"M", 1e6},
	{"G", 1e9},
	{"T", 1e12},
}

var amountForm = lazily(`^[0-9]{1,18}(\.[0-9]{1,9})?$`)

// amount parses an amount with a unit, such as 500m or 2Gi.
func amount(text string) (float64, bool) {
	factor := 1.0
	for _, u := range units {
		if rest, has := strings.CutSuffix(text, u.suffix); has {
			text, factor = rest, u.factor
			break
		}
	}
	if !amountForm().MatchString(text) {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	n *= factor
	return n, err == nil && n > 0 && n < math.MaxInt64/2
}

// resources returns the limits of a request. They bind as far as the host can: the
// sandbox's status says where they do not.
func resources(limits map[string]string) (runtime.Resources, error) {
	var r runtime.Resources
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		n, ok := amount(limits[name])
		switch {
		case name != "cpu" && name != "memory" && name != "pids" && name != "ephemeral-storage":
			return r, unsupported("resourceLimits: %q cannot be limited: there are cpu, memory, pids and ephemeral-storage", name)
		case !ok || name != "cpu" && n < 1:
			return r, invalid("resourceLimits: %s %q: it must be an amount such as 500m, 2 or 512Mi", name, limits[name])
		}
		switch name {
		case "cpu":
			r.CPUs = n
		case "memory":
			r.Memory = int64(n)
		case "pids":
			r.PIDs = int64(n)
		default:
			r.Disk = int64(n)
		}
	}
	r.BestEffort = r.Limited()
	return r, nil
}
