package service

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"wolffia/fields"
	"wolffia/internal/sys/step"
	"wolffia/network"
	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/service/registry"
)

// Params describe a new sandbox. The zero value is valid for [Service.Create].
type Params struct {
	Owner registry.Owner // zero: no owner has it, and only a [Caller] with All may use it
	// SandboxID has the form of an id (see [runtime.IsID]); empty: the service chooses it.
	SandboxID string `json:"-"`
	// GitConfig is how git is configured in an owner's own sandbox; nil: not.
	GitConfig *GitConfig `json:"-"`
	// Snapshot is the id of a [Snapshot] of the caller of ctx: the sandbox goes on from it. Its
	// owner is the snapshot's, and only TTL, EndsStopped, Metadata, Note, Key and, of a filtered
	// network, Egress can be other than there.
	Snapshot string `json:",omitempty"`
	// Image is the image to run on; empty: what the service's own configuration says.
	Image string
	// Entrypoint is recorded and, unless it is [IdleEntrypoint], run in the background once
	// the sandbox has started. nil: nothing is run.
	Entrypoint []string
	Env        map[string]string
	UserName   string            `json:",omitempty"` // as in [runtime.SandboxConfig]; with root inside it has no effect
	Metadata   map[string]string // labels; keys that begin with wolffia. are refused
	TTL        time.Duration     // from now on; 0: until it is destroyed
	// Network and Egress are as in [runtime.SandboxConfig]; Network empty: as Options.Configure says. Egress
	// without Network means [runtime.NetworkFiltered]. Options.MayReach permits them.
	Network runtime.Network
	Egress  *network.Policy
	// Volumes are directories of the host to show, below Options.Roots.
	Volumes []Volume `json:",omitempty"`
	// Settings are the fields with API of the table of settings that the request sets: they replace, and preset
	// and rule limit, what the service's own configuration says. Without Options.Chosen
	// only cow may be set.
	Settings fields.Values `json:",omitempty"`
	// EndsStopped has the sandbox paused after TTL, and not destroyed: see Pause.
	EndsStopped bool `json:",omitempty"`
	// Stored says that Image is in the store of this host: nothing is pulled.
	Stored bool `json:",omitempty"`
	// Note is kept with the sandbox for the front end that makes it: see [Sandbox].
	Note string `json:",omitempty"`
	// Resources are limits, beside those of the configuration; 0 leaves one as it is there.
	Resources runtime.Resources
	// Key, if not empty, makes Create idempotent: a second call with an equal Key and equal
	// params returns the sandbox of the first one, also after a restart of the service.
	// With other params it is [runtime.ErrConflict].
	Key string
	// Refine, if not nil, changes the configuration last. A front end sets so what it has decided
	// and no field here says.
	Refine func(*runtime.SandboxConfig) error `json:"-"`

	from *Sandbox // the snapshot
}

// record is what the label [launch.LabelRecord] holds.
type record struct {
	Owner      registry.Owner `json:"owner"`
	Image      string         `json:"image,omitempty"`
	Entrypoint []string       `json:"entrypoint,omitempty"`
	Key        string         `json:"key,omitempty"`    // the digest of Params.Key
	Params     string         `json:"params,omitempty"` // with Key, the digest of Params
	Note       string         `json:"note,omitempty"`
	// EndsStopped is as in Params, StopsAt when the sandbox is paused, in ms since 1970; 0: never.
	EndsStopped bool  `json:"endsStopped,omitempty"`
	StopsAt     int64 `json:"stopsAt,omitempty"`
	// Unanswered says that Create has not returned. Without Key, no caller can find the sandbox that a killed service
	// leaves: see [Service.Recover].
	Unanswered bool  `json:"unanswered,omitempty"`
	Snapshot   *kept `json:"snapshot,omitempty"` // nil: it is not a snapshot
}

// A keyOf names a sandbox of an owner: by the digest of an idempotency key or, if that is empty, the owner's own.
type keyOf struct {
	owner registry.Owner
	key   string
}

// lock keeps other calls from creating and destroying the sandbox with a key.
func (s *Service) lock(ctx context.Context, key keyOf) (unlock func(), err error) {
	release, err := s.locks.lock(ctx, key)
	if err != nil {
		return nil, err
	}
	s.reconciling.RLock()
	return func() {
		s.reconciling.RUnlock()
		release()
	}, nil
}

// digest returns a digest of v as JSON.
func digest(v any) (string, error) {
	text, err := json.Marshal(v)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// recordOf returns the record of new params.
func recordOf(p *Params) (*record, error) {
	r := &record{Owner: p.Owner, Image: p.Image, Entrypoint: p.Entrypoint, Note: p.Note, Unanswered: p.Key == ""}
	if r.EndsStopped = p.EndsStopped; r.EndsStopped && p.TTL > 0 {
		r.StopsAt = time.Now().Add(p.TTL).UnixMilli()
	}
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

// Create creates a sandbox and starts it. If it fails, nothing is left. What a service leaves that
// is killed meanwhile is for the next call with the Key or, without one, for Recover. created is
// false if params have the Key of a sandbox that exists.
func (s *Service) Create(ctx context.Context, params *Params) (_ *Sandbox, created bool, err error) {
	if err := params.validate(); err != nil {
		return nil, false, err
	}
	if params.Snapshot != "" {
		if params, err = restoring(ctx, s, params); err != nil {
			return nil, false, err
		}
	}
	r, err := recordOf(params)
	if err != nil {
		return nil, false, err
	}
	if r.Key != "" {
		unlock, err := s.lock(ctx, keyOf{params.Owner, r.Key})
		if err != nil {
			return nil, false, err
		}
		defer unlock()
		if has, err := s.withKey(ctx, params, r); has != nil || err != nil {
			return has, false, err
		}
	}
	own := *params
	if own.SandboxID == "" {
		own.SandboxID = s.options().newID(params)
	}
	b, err := s.create(ctx, &own, r)
	if err != nil {
		return nil, false, err
	}
	made, _ := s.describe(b)
	if made == nil {
		return nil, false, runtime.Errorf(runtime.ErrUnavailable, "sandbox %s has lost its labels", b.ID)
	}
	if !made.stopsAt.IsZero() {
		s.stopAt(made.ID, made.stopsAt)
	}
	return made, true, nil
}

// create creates a sandbox and starts it, with the record r or, if that is nil, as its owner's own. If it fails, nothing
// is left.
func (s *Service) create(ctx context.Context, p *Params, r *record) (made *runtime.Sandbox, err error) {
	begin, id := time.Now(), p.SandboxID
	defer func() { s.options().Meter.Started(time.Since(begin), err) }()
	s.used.sweep(ctx, s.rt)
	s.starting.Store(id, true)
	defer s.starting.Delete(id)
	if err := s.admission.pace(ctx, s, p.Owner); err != nil {
		return nil, err
	}
	config, err := s.options().labeled(ctx, p, r)
	if err != nil {
		return nil, err
	}
	admitted, err := s.admission.admit(ctx, s, id, p.Owner, config.Resources)
	if err != nil {
		return nil, err
	}
	defer admitted()
	b, err := produced(ctx, s, p, config)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
		defer cancel()
		err = undone(id, err, s.rt.Destroy(ctx, id))
	}()
	step.Reached("service: created")
	if err := sameCodebase(p, config, b); err != nil {
		return nil, err
	}
	if err := s.start(ctx, &Sandbox{Sandbox: b, Entrypoint: p.Entrypoint}); err != nil {
		return nil, err
	}
	if p.GitConfig != nil {
		if err := configureGit(ctx, s.rt, id, p.GitConfig); err != nil {
			return nil, err
		}
	}
	if r != nil && r.Unanswered {
		return answered(ctx, s.rt, id, *r)
	}
	return s.rt.Get(ctx, id)
}

// answered records that the create of a sandbox is about to return.
func answered(ctx context.Context, rt Runtime, id string, r record) (*runtime.Sandbox, error) {
	r.Unanswered = false
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	step.Reached("service: unanswered")
	return rt.ChangeLabels(ctx, id, func(labels map[string]string) error {
		labels[launch.LabelRecord] = string(text)
		return nil
	})
}

// newID returns the id of a new sandbox.
func (o *Options) newID(p *Params) string {
	if o.NewID == nil {
		return runtime.NewID()
	}
	return o.NewID(p)
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

// labeled returns the configuration of a new sandbox with the record r or, if that is nil, as its owner's own.
func (o *Options) labeled(ctx context.Context, p *Params, r *record) (*runtime.SandboxConfig, error) {
	config, err := o.configure(ctx, p)
	if err != nil {
		return nil, err
	}
	config.ID = p.SandboxID
	config.Labels = maps.Clone(config.Labels)
	if config.Labels == nil {
		config.Labels = map[string]string{}
	}
	if key := CallerOf(ctx).Key; key != "" {
		config.Labels[launch.LabelKey] = key
	}
	if r == nil {
		SetOwner(config, p.Owner, p.GitConfig != nil)
		config.TTL, config.IdleTimeout = cmp.Or(config.TTL, o.TTL), cmp.Or(config.IdleTimeout, o.IdleTimeout)
		return config, setAsked(config.Labels, p)
	}
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if len(text) > maxRecord {
		return nil, runtime.Errorf(runtime.ErrInvalid, "entrypoint: too long: entrypoint, image and what the front end notes have %d bytes as JSON, the limit is %d", len(text), maxRecord)
	}
	maps.Copy(config.Labels, p.Metadata)
	config.Labels[launch.LabelRecord] = string(text)
	if !p.EndsStopped {
		config.TTL = p.TTL
	}
	return config, nil
}

// configure returns what Options and params say of a new sandbox.
func (o *Options) configure(ctx context.Context, p *Params) (_ *runtime.SandboxConfig, err error) {
	for name := range p.Settings {
		if name != "cow" && !o.Chosen {
			return nil, runtime.Errorf(runtime.ErrDenied, "this service does not let its callers choose %s: leave it out", name)
		}
	}
	if p.from != nil { // what else it has comes with the fork
		config := &runtime.SandboxConfig{Network: p.from.Network, Resources: p.from.Resources}
		return config, o.connect(config, p)
	}
	config := &runtime.SandboxConfig{Image: p.Image}
	if o.Configure != nil {
		given, err := o.Configure(ctx, p)
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
	if !config.Root { // else the image has the users
		config.UserName = cmp.Or(p.UserName, config.UserName)
	}
	config.CopyOnWrite = config.CopyOnWrite || p.Settings.Truth("cow")
	if err := o.connect(config, p); err != nil {
		return nil, err
	}
	if config.Mounts, err = volumes(slices.Clone(config.Mounts), p.Volumes, o.Roots); err != nil {
		return nil, err
	}
	if !config.Resources.Limited() { // else what the configuration says of its own limits binds
		config.Resources.BestEffort = p.Resources.BestEffort
	}
	config.Resources.Disk = least(config.Resources.Disk, p.Resources.Disk)
	config.Resources.Memory = least(config.Resources.Memory, p.Resources.Memory)
	config.Resources.CPUs = least(config.Resources.CPUs, p.Resources.CPUs)
	config.Resources.PIDs = least(config.Resources.PIDs, p.Resources.PIDs)
	if p.Refine != nil {
		err = p.Refine(config)
	}
	return config, err
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
func (s *Service) withKey(ctx context.Context, p *Params, r *record) (*Sandbox, error) {
	all, err := s.rt.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, b := range all {
		has, old := s.describe(b)
		switch {
		case has == nil || old.Key != r.Key || old.Owner != r.Owner || b.Expired != "":
		case old.Params != r.Params:
			return nil, runtime.Errorf(runtime.ErrConflict, "sandbox %s was created with the same idempotency key and another request", b.ID)
		case b.State == runtime.StateCreated:
			config, err := s.options().labeled(ctx, p, r)
			if err == nil { // the killed service may not have got to this
				err = sameCodebase(p, config, b)
			}
			if err != nil {
				return nil, err
			}
			return s.startKeyed(ctx, has)
		case b.State == runtime.StateRunning:
			_, err := s.enter(ctx, has) // a killed service may not have got to this
			return has, err
		default:
			return has, nil
		}
	}
	return nil, nil
}

// startKeyed starts a sandbox that is recorded as created. It can run already: the start that a
// killed service has begun goes on.
func (s *Service) startKeyed(ctx context.Context, b *Sandbox) (*Sandbox, error) {
	ctx, cancel := whole(ctx)
	defer cancel()
	err := s.start(ctx, b)
	if err != nil && !errors.Is(err, runtime.ErrConflict) {
		return nil, err
	}
	now, gerr := s.Get(ctx, Caller{All: true}, b.ID)
	if err != nil && gerr == nil && !now.State.Runs() {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "sandbox %s, which has this idempotency key, is being started: try again", b.ID)
	}
	return now, gerr
}

// connect gives a configuration the network that the caller has chosen, if Options.MayReach permits it.
func (o *Options) connect(c *runtime.SandboxConfig, params *Params) error {
	p := *params
	p.Network = params.reaches()
	switch {
	case p.Network == "":
		return nil
	case p.Network == runtime.NetworkNone && p.Egress == nil:
	case o.MayReach == nil:
		return runtime.Errorf(runtime.ErrDenied,
			"network %q: this service does not let its callers choose a network: leave network and egress out", p.Network)
	default:
		if err := o.MayReach(&p); err != nil {
			return err
		}
	}
	c.Network, c.Egress = p.Network, p.Egress
	return nil
}
