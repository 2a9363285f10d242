package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"wolffia/fusefs/audit"
	"wolffia/internal/fileclient"
	"wolffia/network"
	"wolffia/ops/code"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/service/meter"
	"wolffia/service/quota"
	"wolffia/service/registry"
)

// A Runtime is what a [Service] needs of a runtime.
type Runtime interface {
	runtime.RuntimeWithSession
	// Lost returns sandboxes as [Lost] says.
	Lost(ctx context.Context) ([]*runtime.Sandbox, error)
	// Limits returns what enforces the limits of a running sandbox; nil if it has none.
	Limits(sandboxID string) *runtime.LimitsState
	// ChangeLabels replaces the labels of a sandbox by what edit makes of a copy of them.
	ChangeLabels(ctx context.Context, sandboxID string, edit func(labels map[string]string) error) (*runtime.Sandbox, error)
	// Egress returns a copy of the names that a sandbox can reach; nil: none. ChangeEgress
	// replaces them by what edit makes of a copy.
	Egress(ctx context.Context, sandboxID string) (*network.Policy, error)
	ChangeEgress(ctx context.Context, sandboxID string, edit func(*network.Policy) error) (*network.Policy, error)
	// DiskUsage returns how many bytes of the disk a sandbox's directory takes; all is false if it
	// takes more, as when ctx ended.
	DiskUsage(ctx context.Context, sandboxID string) (bytes int64, all bool, err error)
	// Usage returns what running sandboxes use now, by their ids; those whose use is not known are
	// left out.
	Usage(ctx context.Context) map[string]runtime.Usage
	// Log opens the log of the processes that a sandbox has on the host. Its content is hostile.
	Log(sandboxID string) (*os.File, error)
	// Audit opens the log of a sandbox's denials, which the caller closes.
	Audit(ctx context.Context, sandboxID string) (log *audit.Logs, alive string, err error)
}

// A Service gives owners sandboxes: to each one of its own by [Owned.CreateSandbox], and any number by
// [Service.Create]. Labels in the state directory say whose a sandbox is; the registry says which one is an owner's own.
// For a [Caller] that may not use a sandbox, it does not exist ([runtime.ErrNotFound]); an incomplete owner is
// [runtime.ErrInvalid]. A Service is safe for concurrent use. A state directory has one service at a time; when it is
// killed its sandboxes keep running, and the next service finds them. Commands in the shell of a sandbox and a
// [GitConfig] need a shell, and git, in it; files need no program there.
type Service struct {
	rt       Runtime
	opts     atomic.Pointer[Options] // what it points to does not change
	files    *fileclient.Client
	log      *slog.Logger
	registry *registry.Registry // closed, unless Open has opened it
	secret   []byte             // what tokens are derived from

	reconciling sync.RWMutex // read-locked while sandboxes are created and destroyed
	locks       locks[keyOf]
	reviewing   locks[string] // by id: calls on changes
	entering    locks[string] // by id: starts, with their entrypoints
	attaching   locks[terminalOf]

	admission admission
	starting  sync.Map // has the ids of sandboxes that are being created
	used      used
	kernels   *code.Kernels
	usedAt    usedAt
	watches   watches
	stops     sync.Map // has the timers of sandboxes that end by a pause, by id

	mu       sync.Mutex
	attached map[terminalOf]*attachment // clients of this process; guarded by mu

	reviews chan struct{} // has a value for each call on changes that runs
}

// Options are a service's options. nil and the zero value are the defaults.
type Options struct {
	// Configure returns the configuration of a new sandbox, without what params say but
	// its image; nil means an empty one on that image. Create passes on its ctx, and the
	// error. It is called concurrently.
	Configure func(ctx context.Context, params *Params) (*runtime.SandboxConfig, error)
	// NewID returns the id of a new sandbox; nil means [runtime.NewID]. It is called concurrently.
	NewID func(params *Params) string
	// Chosen says that Configure applies Settings of params, or refuses them. Without it Create refuses each setting
	// except cow, which needs no permission.
	Chosen bool
	// Roots are the directories of the host that Volumes may be in.
	Roots []Root
	// MayReach returns why a caller must not give a sandbox the network of params, which has Network set, or nil. nil: a
	// caller may choose no network other than [runtime.NetworkNone]. It is called concurrently.
	MayReach func(params *Params) error
	// HasImage returns an error unless the store of this host has an image; nil: it has none.
	HasImage func(name string) error
	// Config returns the configuration of a sandbox; nil: it cannot be told.
	Config func(ctx context.Context, sandboxID string) (*runtime.SandboxConfig, error)
	// Quotas bound what owners and API keys have.
	Quotas []quota.Rule
	// AllowApply lets callers change the host's directory by [Review.Apply].
	AllowApply bool
	// Every has a service without a registry know all sandboxes of the runtime, also those that no
	// service has made. A [Caller] with All may use those without an owner.
	Every bool
	// AllowAnswers lets owners answer the questions of their sandboxes.
	AllowAnswers bool
	// Record receives what callers have done; nil: it is not recorded. It is called concurrently.
	Record func(*Record)
	// Log receives what the service does without a request; nil disables logging.
	Log *slog.Logger
	// Meter counts; nil counts nothing.
	Meter *meter.Meter
	// ProbeLimit is how long EnsureSandbox waits for a sandbox to answer before it
	// replaces it; 0 means 10 s.
	ProbeLimit time.Duration
	// TTL and IdleTimeout are those of owners' own sandboxes, where Configure leaves them 0;
	// 0 means none. See [runtime.Runtime].
	TTL, IdleTimeout time.Duration
}

// New returns a service over a runtime, which the caller closes. It has no registry: calls for an owner's own sandbox
// are [runtime.ErrUnavailable], and nothing keeps another service from the same state directory.
func New(rt Runtime, opts *Options) *Service {
	if opts == nil {
		opts = &Options{}
	}
	s := &Service{
		rt: rt, files: fileclient.New(rt), kernels: code.New(rt), log: cmp.Or(opts.Log, slog.New(slog.DiscardHandler)), registry: new(registry.Registry),
		secret:   newSecret(),
		attached: map[terminalOf]*attachment{}, reviews: make(chan struct{}, maxReviews),
	}
	own := *opts
	own.ProbeLimit = cmp.Or(opts.ProbeLimit, 10*time.Second)
	s.opts.Store(&own)
	return s
}

// options returns the options that hold now.
func (s *Service) options() *Options { return s.opts.Load() }

// Reconfigure replaces the options by what change makes of a copy: calls that begin later have
// them. Log and Meter must not change. It must not be called concurrently.
func (s *Service) Reconfigure(change func(*Options)) {
	own := *s.options()
	change(&own)
	s.opts.Store(&own)
}

// Open returns the service of a state directory, which must exist, over a runtime, which the caller closes. It
// reconciles before it returns, and replaces a damaged registry. If another service uses the directory, the error wraps
// [registry.ErrInUse]. The caller closes the service.
func Open(ctx context.Context, rt Runtime, stateDir string, opts *Options) (_ *Service, err error) {
	s := New(rt, opts)
	if err := errors.Join(runtime.CheckLifetime(s.options().TTL), runtime.CheckLifetime(s.options().IdleTimeout)); err != nil {
		return nil, err
	}
	if s.registry, err = registry.Open(stateDir, s.log); err != nil {
		return nil, err
	}
	if s.secret, err = openSecret(stateDir); err == nil {
		err = s.Owned().Reconcile(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close ends the kernels and releases the state directory. The sandboxes keep running.
func (s *Service) Close() error {
	s.kernels.Close()
	return s.registry.Close()
}

// A Sandbox describes a sandbox of a service at one moment.
type Sandbox struct {
	*runtime.Sandbox
	Owner      registry.Owner // zero: none
	Requested  string         // Params.Image
	Entrypoint []string
	Metadata   map[string]string
	Note       string // Params.Note
	// EndsStopped says that the sandbox is paused, and not destroyed, at its End.
	EndsStopped bool
	Starting    bool // it is being created, by this process

	unanswered bool // as in record
	kept       *kept
	stopsAt    time.Time
}

// describe returns the description of a sandbox, and its record, which an owner's own has not; nil if it is not of a service.
func (s *Service) describe(b *runtime.Sandbox) (*Sandbox, *record) {
	var r record
	if text, is := b.Labels[launch.LabelRecord]; is {
		if json.Unmarshal([]byte(text), &r) != nil || r.Owner != (registry.Owner{}) && r.Owner.Validate() != nil {
			return nil, nil
		}
	} else if m, err := s.registry.GetMetadata(b.ID); err == nil {
		r.Owner = m.Owner
	} else if !s.options().Every {
		return nil, nil
	} else if m, ok := MetadataOf(b); ok {
		r.Owner = m.Owner
	}
	d := &Sandbox{Sandbox: b, Owner: r.Owner, Requested: r.Image, Entrypoint: r.Entrypoint, Note: r.Note, Metadata: map[string]string{}}
	_, d.Starting = s.starting.Load(b.ID)
	d.unanswered, d.EndsStopped, d.kept = r.Unanswered, r.EndsStopped, r.Snapshot
	if r.StopsAt != 0 {
		d.stopsAt = time.UnixMilli(r.StopsAt)
	}
	for k, v := range b.Labels {
		if !strings.HasPrefix(k, reservedLabel) {
			d.Metadata[k] = v
		}
	}
	return d, &r
}

// Get returns a sandbox that the caller may use, running or not.
func (s *Service) Get(ctx context.Context, caller Caller, id string) (*Sandbox, error) {
	b, err := s.any(ctx, caller, id)
	if b != nil && b.kept != nil {
		return nil, noSandbox(id)
	}
	return b, err
}

// any is Get for sandboxes and snapshots.
func (s *Service) any(ctx context.Context, caller Caller, id string) (*Sandbox, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	if m, err := s.registry.GetMetadata(id); err == nil && !caller.May(m.Owner) {
		return nil, noSandbox(id) // also of one that cannot be read
	}
	b, err := s.rt.Get(ctx, id)
	var found *Sandbox
	if err == nil {
		found, _ = s.describe(b)
	}
	switch {
	case err != nil && !errors.Is(err, runtime.ErrNotFound):
		return nil, err
	case found == nil || !caller.May(found.Owner):
		return nil, noSandbox(id)
	}
	return found, current(b)
}

// noSandbox is the error for a sandbox that does not exist, and for one of another owner: the caller must not learn that
// it exists.
func noSandbox(id string) error { return runtime.Errorf(runtime.ErrNotFound, "no sandbox %q", id) }

// current returns an error if the lifetime of a sandbox is over.
func current(b *runtime.Sandbox) error {
	if b.Expired == "" {
		return nil
	}
	return runtime.Errorf(runtime.ErrNotFound, "sandbox %s is gone: %s", b.ID, b.Expired.Reason())
}

// checkID returns an error unless id has the form of an id. A runtime would also
// take a name, or the beginning of an id.
func checkID(id string) error {
	if !runtime.IsID(id) {
		return noSandbox(id)
	}
	return nil
}

// List returns the sandboxes that the caller may use, newest first.
func (s *Service) List(ctx context.Context, caller Caller) ([]*Sandbox, error) {
	all, err := s.all(ctx, caller)
	return slices.DeleteFunc(all, func(b *Sandbox) bool { return b.kept != nil }), err
}

// all is List with the snapshots.
func (s *Service) all(ctx context.Context, caller Caller) ([]*Sandbox, error) {
	all, err := s.rt.List(ctx)
	if err != nil {
		return nil, err
	}
	var found []*Sandbox
	for _, b := range slices.Backward(all) {
		if d, _ := s.describe(b); d != nil && caller.May(d.Owner) && b.Expired == "" {
			found = append(found, d)
		}
	}
	return found, nil
}

// Limits returns what enforces the limits of a running sandbox; nil if it has none.
func (s *Service) Limits(id string) *runtime.LimitsState { return s.rt.Limits(id) }

// HasImage returns an error unless the store of this host has an image.
func (s *Service) HasImage(name string) error {
	if s.options().HasImage == nil {
		return runtime.Errorf(runtime.ErrNotFound, "no image %q: this service has no images", name)
	}
	return s.options().HasImage(name)
}

// Config returns the configuration of a sandbox of any owner. Its rules do not tell in which
// directories of the host their files are.
func (s *Service) Config(ctx context.Context, id string) (*runtime.SandboxConfig, error) {
	if s.options().Config == nil {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "this service does not tell the configuration of sandboxes")
	}
	c, err := s.options().Config(ctx, id)
	if err != nil {
		return nil, err
	}
	public := *c
	public.Permissions = slices.Clone(c.Permissions)
	for i := range public.Permissions {
		public.Permissions[i].Source = perm.SourceName(public.Permissions[i].Source)
	}
	return &public, nil
}
