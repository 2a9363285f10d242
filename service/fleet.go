package service

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"wolffia/fields"
	"wolffia/fusefs/audit"
	"wolffia/internal/fileclient"
	"wolffia/internal/sys/step"
	"wolffia/network"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/service/registry"
)

// A Runtime is what a [Fleet] needs of a runtime.
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
	// Log opens the log of the processes that a sandbox has on the host. Its content is hostile.
	Log(sandboxID string) (*os.File, error)
	// Audit opens the log of a sandbox's denials, which the caller closes.
	Audit(ctx context.Context, sandboxID string) (log *audit.Logs, alive string, err error)
}

// A Fleet makes any number of sandboxes for each owner; those of CreateSandbox are for a [Service], which
// allows an owner one. It has no records of its own: labels in the state directory say whose a sandbox is, so that the
// next Fleet over the same directory has the same ones. For a [Caller] that may not use a sandbox, it does not exist
// ([runtime.ErrNotFound]). A Fleet is safe for concurrent use; there is one over a state directory at a time, which the
// [Service] over it ensures. Commands in the shell of a sandbox and a [GitConfig] need a shell, and git, in it; files
// need no program there.
type Fleet struct {
	rt    Runtime
	opts  FleetOptions
	files *fileclient.Client
	log   *slog.Logger

	locks     locks[keyOf]
	entering  locks[string] // by id: starts, with their entrypoints
	attaching locks[terminalOf]

	mu       sync.Mutex
	starting map[string]bool            // ids; guarded by mu
	used     map[string]*commands       // by id of a sandbox; guarded by mu
	attached map[terminalOf]*attachment // clients of this process; guarded by mu

	reviews chan struct{} // has a value for each call on changes that runs
}

// FleetOptions are a fleet's options. nil and the zero value are the defaults.
type FleetOptions struct {
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
	// Config returns the configuration of a sandbox; nil: it cannot be told.
	Config func(ctx context.Context, sandboxID string) (*runtime.SandboxConfig, error)
	// AllowApply lets callers change the host's directory by [Review.Apply].
	AllowApply bool
	// Log receives what the fleet does without a request; nil disables logging.
	Log *slog.Logger
	// Meter counts; nil counts nothing.
	Meter *Meter
}

// Params describe a new sandbox. The zero value is valid for [Fleet.Create].
type Params struct {
	Owner registry.Owner // zero: no owner has it, and only a [Caller] with All may use it
	// SandboxID, GitConfig and IdleTimeout are of the one sandbox that a [Service] gives to an owner: its id, which has
	// the form of one (see [runtime.IsID]); how git is configured in it, nil: not; and the time as in
	// [runtime.SandboxConfig], where FleetOptions.Configure leaves it 0. TTL is likewise then.
	SandboxID   string        `json:"-"`
	GitConfig   *GitConfig    `json:"-"`
	IdleTimeout time.Duration `json:"-"`
	// Image is the image to run on; empty: what the service's own configuration says.
	Image string
	// Entrypoint is recorded and, unless it is [IdleEntrypoint], run in the background once
	// the sandbox has started. nil: nothing is run.
	Entrypoint []string
	Env        map[string]string
	Metadata   map[string]string // labels; keys that begin with wolffia. are refused
	TTL        time.Duration     // from now on; 0: until it is destroyed
	// Network and Egress are as in [runtime.SandboxConfig]; Network empty: as FleetOptions.Configure says. Egress
	// without Network means [runtime.NetworkFiltered]. FleetOptions.MayReach permits them.
	Network runtime.Network
	Egress  *network.Policy
	// Volumes are directories of the host to show, below FleetOptions.Roots.
	Volumes []FleetVolume `json:",omitempty"`
	// Settings are the fields with API of the table of settings that the request sets: they replace, and preset
	// and rule limit, what the service's own configuration says. Without FleetOptions.Chosen
	// only cow may be set.
	Settings fields.Values `json:",omitempty"`
	// Resources are limits, beside those of the configuration; 0 leaves one as it is there.
	Resources runtime.Resources
	// Key, if not empty, makes Create idempotent: a second call with an equal Key and equal
	// params returns the sandbox of the first one, also after a restart of the service.
	// With other params it is [runtime.ErrConflict].
	Key string
}

// A FleetSandbox describes a sandbox of a fleet at one moment.
type FleetSandbox struct {
	*runtime.Sandbox
	Owner      registry.Owner // zero: none
	Requested  string         // Params.Image
	Entrypoint []string
	Metadata   map[string]string
	Starting   bool // it is being created, by this process
}

// record is what the label [launch.LabelFleet] holds.
type record struct {
	Owner      registry.Owner `json:"owner"`
	Image      string         `json:"image,omitempty"`
	Entrypoint []string       `json:"entrypoint,omitempty"`
	Key        string         `json:"key,omitempty"`    // the digest of Params.Key
	Params     string         `json:"params,omitempty"` // with Key, the digest of Params
}

// NewFleet returns a fleet over a runtime, which the caller closes.
func NewFleet(rt Runtime, opts *FleetOptions) *Fleet {
	if opts == nil {
		opts = &FleetOptions{}
	}
	return &Fleet{
		rt: rt, opts: *opts, files: fileclient.New(rt), log: cmp.Or(opts.Log, slog.New(slog.DiscardHandler)),
		starting: map[string]bool{}, used: map[string]*commands{}, attached: map[terminalOf]*attachment{},
		reviews: make(chan struct{}, maxReviews),
	}
}

// A keyOf is an idempotency key of an owner.
type keyOf struct {
	owner registry.Owner
	key   string
}

// digest returns a digest of v as JSON.
func digest(v any) (string, error) {
	text, err := json.Marshal(v)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// recordOf returns the record of new params.
func recordOf(p *Params) (*record, error) {
	r := &record{Owner: p.Owner, Image: p.Image, Entrypoint: p.Entrypoint}
	if p.Key == "" {
		return r, nil
	}
	key, err := digest(p.Key)
	if err != nil {
		return nil, err
	}
	r.Key = key
	r.Params, err = digest(p)
	return r, err
}

// describe returns the description of a sandbox; nil if it is not of a fleet.
func describe(s *runtime.Sandbox) (*FleetSandbox, *record) {
	text, is := s.Labels[launch.LabelFleet]
	var r record
	if !is || json.Unmarshal([]byte(text), &r) != nil || r.Owner != (registry.Owner{}) && r.Owner.Validate() != nil {
		return nil, nil
	}
	f := &FleetSandbox{Sandbox: s, Owner: r.Owner, Requested: r.Image, Entrypoint: r.Entrypoint, Metadata: map[string]string{}}
	for k, v := range s.Labels {
		if !strings.HasPrefix(k, reservedLabel) {
			f.Metadata[k] = v
		}
	}
	return f, &r
}

// Create creates a sandbox and starts it. If it fails, nothing is left; but a service that
// is killed meanwhile can leave a sandbox that was not started. created is false if params
// have the Key of a sandbox that exists.
func (f *Fleet) Create(ctx context.Context, params *Params) (_ *FleetSandbox, created bool, err error) {
	if err := params.validate(); err != nil {
		return nil, false, err
	}
	r, err := recordOf(params)
	if err != nil {
		return nil, false, err
	}
	if r.Key != "" {
		unlock, err := f.locks.lock(ctx, keyOf{params.Owner, r.Key})
		if err != nil {
			return nil, false, err
		}
		defer unlock()
		if has, err := f.withKey(ctx, params, r); has != nil || err != nil {
			return has, false, err
		}
	}
	f.sweep(ctx)
	id := f.newID(params)
	f.begin(id)
	defer f.end(id)
	begin := time.Now()
	defer func() { f.opts.Meter.started(time.Since(begin), err) }()
	config, err := f.labeled(ctx, params, r)
	if err != nil {
		return nil, false, err
	}
	config.ID = id
	var made *FleetSandbox
	_, err = f.make(ctx, config, func(s *runtime.Sandbox) error {
		step.Reached("fleet: created")
		if err := sameCodebase(params, config, s); err != nil {
			return err
		}
		if err := f.start(ctx, &FleetSandbox{Sandbox: s, Entrypoint: params.Entrypoint}); err != nil {
			return err
		}
		if s, err = f.rt.Get(ctx, id); err != nil {
			return err
		}
		if made, _ = describe(s); made == nil {
			return runtime.Errorf(runtime.ErrUnavailable, "sandbox %s has lost its labels", id)
		}
		return nil
	})
	return made, err == nil, err
}

// newID returns the id of a new sandbox. f may be nil.
func (f *Fleet) newID(p *Params) string {
	if f == nil || f.opts.NewID == nil {
		return runtime.NewID()
	}
	return f.opts.NewID(p)
}

// git returns the GitConfig of params that may be nil.
func (p *Params) git() *GitConfig {
	if p == nil {
		return nil
	}
	return p.GitConfig
}

// undone returns the error of a create whose sandbox was destroyed for it, which undo is the error of.
func undone(id string, err, undo error) error {
	if errors.Is(undo, runtime.ErrNotFound) { // else err is of a sandbox that has gone, in whatever way it was noticed
		return runtime.Errorf(runtime.ErrConflict, "sandbox %s was deleted before it had started", id)
	}
	return errors.Join(err, undo)
}

// sameCodebase returns an error if a sandbox has another codebase than the one that Configure has resolved and permitted.
func sameCodebase(p *Params, config *runtime.SandboxConfig, s *runtime.Sandbox) error {
	codebase := p.Settings.Text("codebase")
	if codebase == "" || s.CodebasePath == config.CodebasePath {
		return nil
	}
	return runtime.Errorf(runtime.ErrConflict, "codebase %s: a symbolic link was put into this path: try again", codebase)
}

func (p *Params) validate() error {
	var errs []error
	if p.Owner != (registry.Owner{}) {
		errs = append(errs, p.Owner.Validate())
	}
	for k := range p.Metadata {
		if strings.HasPrefix(k, reservedLabel) {
			errs = append(errs, reserved(k))
		}
	}
	errs = append(errs, checkMetadata(len(p.Metadata)))
	return errors.Join(append(errs, runtime.CheckLifetime(p.TTL))...)
}

// labeled returns the configuration of a new sandbox with the record r.
func (f *Fleet) labeled(ctx context.Context, p *Params, r *record) (*runtime.SandboxConfig, error) {
	config, err := f.configure(ctx, p)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if len(text) > maxRecord {
		return nil, runtime.Errorf(runtime.ErrInvalid, "entrypoint: too long: entrypoint and image have %d bytes as JSON, the limit is %d", len(text), maxRecord)
	}
	config.Labels = maps.Clone(config.Labels)
	if config.Labels == nil {
		config.Labels = map[string]string{}
	}
	maps.Copy(config.Labels, p.Metadata)
	config.Labels[launch.LabelFleet], config.TTL = string(text), p.TTL
	return config, nil
}

// configure returns what FleetOptions and params say of a new sandbox.
func (f *Fleet) configure(ctx context.Context, p *Params) (_ *runtime.SandboxConfig, err error) {
	for name := range p.Settings {
		if name != "cow" && !f.opts.Chosen {
			return nil, runtime.Errorf(runtime.ErrDenied, "this service does not let its callers choose %s: leave it out", name)
		}
	}
	config := &runtime.SandboxConfig{Image: p.Image}
	if f.opts.Configure != nil {
		given, err := f.opts.Configure(ctx, p)
		if err != nil {
			return nil, err
		}
		*config = *given
	}
	config.Env = maps.Clone(config.Env)
	if config.Env == nil {
		config.Env = map[string]string{}
	}
	maps.Copy(config.Env, p.Env)
	config.CopyOnWrite = config.CopyOnWrite || p.Settings.Truth("cow")
	if err := f.connect(config, p); err != nil {
		return nil, err
	}
	if config.Mounts, err = volumes(slices.Clone(config.Mounts), p.Volumes, f.opts.Roots); err != nil {
		return nil, err
	}
	if !config.Resources.Limited() { // else what the configuration says of its own limits binds
		config.Resources.BestEffort = p.Resources.BestEffort
	}
	config.Resources.Disk = least(config.Resources.Disk, p.Resources.Disk)
	config.Resources.Memory = least(config.Resources.Memory, p.Resources.Memory)
	config.Resources.CPUs = least(config.Resources.CPUs, p.Resources.CPUs)
	config.Resources.PIDs = least(config.Resources.PIDs, p.Resources.PIDs)
	return config, nil
}

// maxRecord is the largest value of a label, in bytes.
const maxRecord = 4096

// least returns the lower of two limits, where 0 means none.
func least[T int64 | float64](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// withKey returns the sandbox with the key of r, nil if there is none. It starts one that is recorded as
// created: a killed service has not started it, or a full disk has kept its end from being recorded,
// and then it has what was changed in it.
func (f *Fleet) withKey(ctx context.Context, p *Params, r *record) (*FleetSandbox, error) {
	all, err := f.rt.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		has, old := describe(s)
		switch {
		case has == nil || old.Key != r.Key || old.Owner != r.Owner || s.Expired != "":
		case old.Params != r.Params:
			return nil, runtime.Errorf(runtime.ErrConflict, "sandbox %s was created with the same idempotency key and another request", s.ID)
		case s.State == runtime.StateCreated:
			config, err := f.labeled(ctx, p, r)
			if err == nil { // the killed service may not have got to this
				err = sameCodebase(p, config, s)
			}
			if err != nil {
				return nil, err
			}
			return f.startKeyed(ctx, has)
		case s.State == runtime.StateRunning:
			_, err := f.enter(ctx, has) // a killed service may not have got to this
			return has, err
		default:
			return has, nil
		}
	}
	return nil, nil
}

// startKeyed starts a sandbox that is recorded as created. It can run already: the start that a
// killed service has begun goes on.
func (f *Fleet) startKeyed(ctx context.Context, s *FleetSandbox) (*FleetSandbox, error) {
	ctx, cancel := whole(ctx)
	defer cancel()
	err := f.start(ctx, s)
	if err != nil && !errors.Is(err, runtime.ErrConflict) {
		return nil, err
	}
	now, gerr := f.Get(ctx, Caller{All: true}, s.ID)
	if err != nil && gerr == nil && now.State != runtime.StateRunning {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "sandbox %s, which has this idempotency key, is being started: try again", s.ID)
	}
	return now, gerr
}

func (f *Fleet) begin(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.starting[id] = true
}

func (f *Fleet) end(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.starting, id)
}

func (f *Fleet) isStarting(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.starting[id]
}

// Get returns a sandbox, running or not.
func (f *Fleet) Get(ctx context.Context, caller Caller, id string) (*FleetSandbox, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	s, err := f.rt.Get(ctx, id)
	var found *FleetSandbox
	if err == nil {
		found, _ = describe(s)
	}
	switch {
	case err != nil && !errors.Is(err, runtime.ErrNotFound):
		return nil, err
	case found == nil || !caller.May(found.Owner): // one text for both: the caller must not learn that it exists
		return nil, runtime.Errorf(runtime.ErrNotFound, "no sandbox %q", id)
	case s.Expired != "":
		return nil, runtime.Errorf(runtime.ErrNotFound, "sandbox %s is gone: %s", id, s.Expired.Reason())
	}
	found.Starting = f.isStarting(id)
	return found, nil
}

// List returns the sandboxes that the caller may use, newest first.
func (f *Fleet) List(ctx context.Context, caller Caller) ([]*FleetSandbox, error) {
	all, err := f.rt.List(ctx)
	if err != nil {
		return nil, err
	}
	var found []*FleetSandbox
	for _, s := range slices.Backward(all) {
		d, _ := describe(s)
		if d == nil || !caller.May(d.Owner) || s.Expired != "" {
			continue
		}
		d.Starting = f.isStarting(s.ID)
		found = append(found, d)
	}
	return found, nil
}

// Count returns how many sandboxes of fleets and of owners there are, by state.
func (f *Fleet) Count(ctx context.Context) (map[runtime.State]int, error) {
	all, err := f.rt.List(ctx)
	if err != nil {
		return nil, err
	}
	counts := map[runtime.State]int{}
	for _, s := range all {
		of, _ := describe(s)
		if _, owned := MetadataOf(s); (owned || of != nil) && s.Expired == "" {
			counts[s.State]++
		}
	}
	return counts, nil
}

// Destroy destroys a sandbox; it returns when all of it is gone.
func (f *Fleet) Destroy(ctx context.Context, caller Caller, id string) error {
	if _, err := f.Get(ctx, caller, id); err != nil {
		return err
	}
	err := f.rt.Destroy(ctx, id)
	if err == nil {
		f.forget(id)
	}
	return err
}

// Stop ends all processes of a running sandbox, and keeps its files but for those of
// temporary file systems. One that is not running is [runtime.ErrConflict].
func (f *Fleet) Stop(ctx context.Context, caller Caller, id string) error {
	if _, err := f.Inside(ctx, caller, id); err != nil { // it is not running
		return err
	}
	if err := f.rt.Stop(ctx, id); err != nil {
		return err
	}
	f.forget(id)
	return nil
}

// Start starts a sandbox that is stopped or dead, and its entrypoint. One that is running
// is [runtime.ErrConflict].
func (f *Fleet) Start(ctx context.Context, caller Caller, id string) error {
	s, err := f.Get(ctx, caller, id)
	if err != nil {
		return err
	}
	ctx, cancel := whole(ctx) // both, though the caller goes away meanwhile
	defer cancel()
	return f.start(ctx, s)
}

// start starts a sandbox and its entrypoint. One that runs already is [runtime.ErrConflict], unless
// an earlier service was killed before it ran the entrypoint, which start then does.
func (f *Fleet) start(ctx context.Context, s *FleetSandbox) error {
	unlock, err := f.entering.lock(ctx, s.ID)
	if err != nil {
		return err
	}
	defer unlock()
	running := f.rt.Start(ctx, s.ID)
	if running != nil && !errors.Is(running, runtime.ErrConflict) {
		return running
	}
	if running == nil {
		f.forget(s.ID) // it may have ended without a call of Stop
	}
	step.Reached("fleet: started")
	ran, err := f.enterLocked(ctx, s)
	if ran || running == nil {
		return err
	}
	return running
}

// Renew sets when a sandbox ends, which must be later than now.
func (f *Fleet) Renew(ctx context.Context, caller Caller, id string, until time.Time) (*FleetSandbox, error) {
	if _, err := f.Get(ctx, caller, id); err != nil {
		return nil, err
	}
	ttl := time.Until(until)
	if ttl <= 0 {
		return nil, runtime.Errorf(runtime.ErrInvalid, "the new end is not in the future")
	}
	if err := runtime.CheckLifetime(max(ttl, runtime.MinLifetime)); err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "the new end is too late: time to live %w", err)
	}
	const rounding = 2 * time.Millisecond // of the time to live and of the clock: no sandbox ends before it should
	s, err := f.rt.Renew(ctx, id, ttl+rounding)
	if err != nil {
		return nil, err
	}
	renewed, _ := describe(s)
	if renewed == nil {
		return nil, runtime.Errorf(runtime.ErrNotFound, "no sandbox %q", id)
	}
	return renewed, nil
}

// Limits returns what enforces the limits of a running sandbox; nil if it has none.
func (f *Fleet) Limits(id string) *runtime.LimitsState { return f.rt.Limits(id) }

// Config returns the configuration of a sandbox, whoever owns it. Its rules do not tell in which
// directories of the host their files are.
func (f *Fleet) Config(ctx context.Context, id string) (*runtime.SandboxConfig, error) {
	if f.opts.Config == nil {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "this service does not tell the configuration of sandboxes")
	}
	c, err := f.opts.Config(ctx, id)
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
