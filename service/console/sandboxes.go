package console

import (
	"context"

	"wolffia/runtime"
	"wolffia/service"
)

// A box is what the page shows of a sandbox. Times are in ms since 1970, sizes in bytes.
type box struct {
	ID          string         `json:"id"`
	Name        string         `json:"name"`
	Owner       string         `json:"owner"` // ORG/PROJECT/USER; empty: none
	Backend     string         `json:"backend"`
	State       runtime.State  `json:"state"`
	Reason      string         `json:"reason"`
	CreatedAt   int64          `json:"createdAt"`
	ExpiresAt   int64          `json:"expiresAt"` // 0: never
	WakesOnUse  bool           `json:"wakesOnUse"`
	Codebase    string         `json:"codebase"` // on the host; empty for a caller of one owner
	Cow         bool           `json:"cow"`
	Filter      runtime.Filter `json:"filter"`
	Image       string         `json:"image"`
	Network     string         `json:"network"`
	MountPoint  string         `json:"mountPoint"`
	Limits      limits         `json:"limits"`
	IdleSeconds int64          `json:"idleSeconds"` // 0: it has no idle timeout
	Root        bool           `json:"root"`
	// Running are command lines that run now, three at most; nil: not known. The sandbox chooses them.
	Running []string `json:"running"`
	// Denied and Refused are how many accesses of the tree and of the network its log has; nil: not
	// known, as while no page looks.
	Denied  *int    `json:"denied"`
	Refused *int    `json:"refused"`
	Now     *sample `json:"now"` // nil: it does not run, or there is no sample yet
}

// limits are those of a sandbox; 0: none.
type limits struct {
	Memory int64   `json:"memory"`
	Disk   int64   `json:"disk"`
	CPUs   float64 `json:"cpus"`
	PIDs   int64   `json:"pids"`
}

// boxOf describes a sandbox to a caller. A caller of one owner gets no path of the host.
func boxOf(b *service.Sandbox, caller service.Caller) box {
	s := box{
		ID: b.ID, Name: b.Name, Owner: ownerText(b.Owner), Backend: b.Runtime, State: b.State, Reason: b.Reason,
		CreatedAt: ms(b.CreatedAt), ExpiresAt: ms(b.End()), WakesOnUse: b.WakesOnUse, Cow: b.CopyOnWrite, Filter: b.Filter,
		Image: b.Image, Network: string(b.Network), MountPoint: b.MountPoint, Root: b.Root,
		Limits:      limits{b.Resources.Memory, b.Resources.Disk, b.Resources.CPUs, b.Resources.PIDs},
		IdleSeconds: int64(b.IdleTimeout.Seconds()),
	}
	if caller.All {
		s.Codebase = b.CodebasePath
	}
	return s
}

// list returns the sandboxes of a caller, newest first.
func (h *Handler) list(ctx context.Context, caller service.Caller) (list []box, all []*service.Sandbox, err error) {
	all, err = h.opts.Service.List(ctx, caller)
	list = make([]box, len(all))
	for i, b := range all {
		list[i] = boxOf(b, caller)
		h.hub.fill(&list[i])
	}
	return list, all, err
}

func (h *Handler) sandboxes(c *call) (any, error) {
	list, _, err := h.list(c.Context(), c.caller)
	return map[string]any{"sandboxes": list}, err
}

// details are what the page shows of one sandbox beside its box.
type details struct {
	box
	Metadata map[string]string `json:"metadata"`
	Publish  []published       `json:"publish"`
	Mounts   []mount           `json:"mounts"`
	User     string            `json:"user"`
	Home     string            `json:"home"`
	Allow    []string          `json:"allow"` // names that its network reaches
}

type published struct {
	Address string `json:"address"`
	Port    int    `json:"port"` // of the host
	Inside  int    `json:"inside"`
}

type mount struct {
	Source   string `json:"source"` // empty for a caller of one owner
	Target   string `json:"target"`
	Writable bool   `json:"writable"`
}

func (h *Handler) sandbox(c *call) (any, error) {
	b, err := h.opts.Service.Get(c.Context(), c.caller, c.id)
	if err != nil {
		return nil, err
	}
	config, err := h.opts.Service.Config(c.Context(), b.ID)
	if err != nil {
		return nil, err
	}
	d := details{
		box: boxOf(b, c.caller), Metadata: b.Metadata, User: b.User, Home: b.Home,
		Publish: []published{}, Mounts: []mount{}, Allow: []string{},
	}
	h.hub.fill(&d.box)
	for _, p := range config.Publish {
		d.Publish = append(d.Publish, published{p.Address, p.Local, p.Port})
	}
	for _, m := range config.Mounts {
		shown := mount{Target: m.Target, Writable: m.Writable}
		if c.caller.All {
			shown.Source = m.Source
		}
		d.Mounts = append(d.Mounts, shown)
	}
	if config.Egress != nil {
		d.Allow = append(d.Allow, config.Egress.Allow...)
	}
	return d, nil
}

// after describes the sandbox after a call that has changed it, and has the page of others know.
func (h *Handler) after(c *call, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	h.hub.look()
	b, err := h.opts.Service.Get(c.Context(), c.caller, c.id)
	if err != nil {
		return nil, err
	}
	s := boxOf(b, c.caller)
	h.hub.fill(&s)
	return map[string]any{"sandbox": s}, nil
}

// nothing is a request without members, or a reply.
type nothing struct{}

func start(h *Handler, c *call, _ *nothing) (any, error) {
	return h.after(c, h.opts.Service.Start(c.Context(), c.caller, c.id))
}

func stop(h *Handler, c *call, _ *nothing) (any, error) {
	return h.after(c, h.opts.Service.Stop(c.Context(), c.caller, c.id))
}

func pause(h *Handler, c *call, _ *nothing) (any, error) {
	in, err := h.opts.Service.Inside(c.Context(), c.caller, c.id)
	if err == nil {
		err = in.Pause(c.Context())
	}
	return h.after(c, err)
}

func resume(h *Handler, c *call, _ *nothing) (any, error) {
	_, err := h.opts.Service.Thaw(c.Context(), c.caller, c.id)
	return h.after(c, err)
}

func destroy(h *Handler, c *call, _ *nothing) (any, error) {
	err := h.opts.Service.Destroy(c.Context(), c.caller, c.id)
	h.hub.look()
	return nothing{}, err
}
