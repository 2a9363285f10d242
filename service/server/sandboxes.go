package server

import (
	"context"
	"net/http"
	"time"

	"wolffia/fields"
	"wolffia/network"
	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/registry"
)

// An addRequest asks for a sandbox beside the owner's own one.
type addRequest struct {
	registry.Owner
	Image    string            `json:"image"` // empty: as the service's own configuration says
	Env      map[string]string `json:"env"`
	Metadata map[string]string `json:"metadata"`
	TTLMS    int64             `json:"ttlMs"` // 0: until it is destroyed
	Network  runtime.Network   `json:"network"`
	Egress   *network.Policy   `json:"egress"`
	fields.Asked
}

// A sandboxReply describes a sandbox. Times are in ms since 1970.
type sandboxReply struct {
	SandboxID string `json:"sandboxId"`
	registry.Owner
	State      runtime.State     `json:"state"`
	MountPoint string            `json:"mountPoint"` // of the codebase: relative paths begin there
	Image      string            `json:"image,omitempty"`
	Metadata   map[string]string `json:"metadata"`
	CreatedAt  int64             `json:"createdAt"`
	ExpiresAt  int64             `json:"expiresAt,omitempty"` // absent: never
}

func sandboxReplyOf(b *service.Sandbox) sandboxReply {
	r := sandboxReply{
		SandboxID: b.ID, Owner: b.Owner, State: b.State, MountPoint: b.MountPoint, Image: b.Requested, Metadata: b.Metadata,
		CreatedAt: b.CreatedAt.UnixMilli(),
	}
	if !b.ExpiresAt.IsZero() {
		r.ExpiresAt = b.ExpiresAt.UnixMilli()
	}
	return r
}

func (s *Server) addSandbox(ctx context.Context, e *entry, r *addRequest) (int, any, error) {
	e.about(r.Owner, "")
	if err := r.Owner.Validate(); err != nil {
		return 0, nil, err
	}
	most := runtime.MaxLifetime.Milliseconds()
	if r.TTLMS < 0 || r.TTLMS > most {
		return 0, nil, runtime.Errorf(runtime.ErrInvalid, "ttlMs %d: out of range 0 to %d", r.TTLMS, most)
	}
	p := (&createRequest{Network: r.Network, Egress: r.Egress, Asked: r.Asked}).params()
	p.Owner, p.Image, p.Env, p.Metadata = r.Owner, r.Image, r.Env, r.Metadata
	p.TTL = time.Duration(r.TTLMS) * time.Millisecond
	b, _, err := s.service.Create(ctx, p)
	if err != nil {
		return 0, nil, err
	}
	e.about(r.Owner, b.ID)
	return http.StatusCreated, sandboxReplyOf(b), nil
}

type sandboxesReply struct {
	Sandboxes []sandboxReply `json:"sandboxes"`
}

func (s *Server) listSandboxes(ctx context.Context, e *entry, r *registry.Owner) (int, any, error) {
	e.about(*r, "")
	if err := r.Validate(); err != nil {
		return 0, nil, err
	}
	found, err := s.service.List(ctx, service.Caller{Owner: *r})
	all := []sandboxReply{}
	for _, b := range found {
		all = append(all, sandboxReplyOf(b))
	}
	return http.StatusOK, sandboxesReply{all}, err
}

// An egressRequest names all that a sandbox may reach from now on; without a policy, nothing.
type egressRequest struct {
	ownerRequest
	Egress *network.Policy `json:"egress"`
}

type egressReply struct {
	Egress *network.Policy `json:"egress"`
}

func (s *Server) changeNetwork(ctx context.Context, e *entry, r *egressRequest) (int, any, error) {
	e.about(r.Owner, r.SandboxID)
	if err := r.Validate(); err != nil {
		return 0, nil, err
	}
	p, err := s.service.ChangeEgress(ctx, service.Caller{Owner: r.Owner}, r.SandboxID, func(p *network.Policy) error {
		if *p = (network.Policy{}); r.Egress != nil {
			*p = *r.Egress
		}
		return nil
	})
	return http.StatusOK, egressReply{p}, err
}
