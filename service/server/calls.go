package server

import (
	"context"
	"net/http"
	"slices"
	"time"

	"wolffia/network"
	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/gate"
	"wolffia/service/registry"
)

// A call is a call of the API.
type call struct {
	maxBody int64 // of the request, in bytes
	// do decodes the request and executes it. It notes in e what may be logged.
	do func(s *Server, ctx context.Context, e *entry, body []byte) (status int, reply any, err error)
}

// The largest sizes of requests, in bytes.
const (
	smallBody   = 64 << 10
	commandBody = 8 << 20
	filesBody   = 64 << 20 // one file of service.MaxFile, in base64
)

// calls are the calls of the API, by name.
var calls = map[string]call{
	"createSandbox":        {smallBody, typed((*Server).createSandbox)},
	"ensureSandbox":        {smallBody, typed((*Server).ensureSandbox)},
	"destroySandbox":       {smallBody, typed((*Server).destroySandbox)},
	"findSandbox":          {smallBody, typed((*Server).findSandbox)},
	"touchSandbox":         {smallBody, typed((*Server).touchSandbox)},
	"executeBash":          {commandBody, typed((*Server).executeBash)},
	"cancelOperation":      {smallBody, typed((*Server).cancelOperation)},
	"readFile":             {smallBody, typed((*Server).readFile)},
	"writeFiles":           {filesBody, typed((*Server).writeFiles)},
	"scanRunningSandboxes": {smallBody, typed((*Server).scan)},
	"streamBash":           {commandBody, typed((*Server).streamBash)},
	"startJob":             {commandBody, typed((*Server).startJob)},
	"listJobs":             {smallBody, typed((*Server).listJobs)},
	"jobOutput":            {smallBody, typed((*Server).jobOutput)},
	"waitJob":              {smallBody, typed((*Server).waitJob)},
	"signalJob":            {smallBody, typed((*Server).signalJob)},
	"audit":                {smallBody, typed((*Server).audit)},
	"rules":                {smallBody, typed((*Server).rules)},
}

// typed returns a call.do that decodes the request and calls f with it.
func typed[R any](f func(s *Server, ctx context.Context, e *entry, r *R) (int, any, error)) func(*Server, context.Context, *entry, []byte) (int, any, error) {
	return func(s *Server, ctx context.Context, e *entry, body []byte) (int, any, error) {
		var r R
		if err := decode(body, &r); err != nil {
			return 0, nil, err
		}
		if err := mayActFor(gate.CallerOf(ctx), &r); err != nil {
			return 0, nil, err
		}
		return f(s, ctx, e, &r)
	}
}

// mayActFor returns an error unless the caller may use what belongs to the owner that a
// request names, if it names one.
func mayActFor(caller service.Caller, request any) error {
	named, is := request.(interface{ Named() registry.Owner })
	if is && !caller.May(named.Named()) {
		return runtime.Errorf(runtime.ErrDenied, "the API key is for another owner")
	}
	return nil
}

// An ownerRequest names the owner and, for calls about a sandbox, the sandbox.
type ownerRequest struct {
	registry.Owner
	SandboxID string `json:"sandboxId"`
}

type createRequest struct {
	registry.Owner
	GitConfig *service.GitConfig `json:"gitConfig"`
	Network   runtime.Network    `json:"network"`
	Egress    *network.Policy    `json:"egress"`
}

func (r *createRequest) options() *service.CreateOptions {
	return &service.CreateOptions{GitConfig: r.GitConfig, Network: r.Network, Egress: r.Egress}
}

func (s *Server) createSandbox(ctx context.Context, e *entry, r *createRequest) (int, any, error) {
	e.about(r.Owner, "")
	m, err := s.service.CreateSandbox(ctx, r.Owner, r.options())
	e.about(r.Owner, m.SandboxID)
	return http.StatusCreated, m, err
}

func (s *Server) ensureSandbox(ctx context.Context, e *entry, r *createRequest) (int, any, error) {
	e.about(r.Owner, "")
	m, created, err := s.service.EnsureSandbox(ctx, r.Owner, r.options())
	e.about(r.Owner, m.SandboxID)
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return status, struct {
		registry.Metadata
		Created bool `json:"created"`
	}{m, created}, err
}

func (s *Server) destroySandbox(ctx context.Context, e *entry, r *ownerRequest) (int, any, error) {
	e.about(r.Owner, r.SandboxID)
	err := s.service.DestroySandbox(ctx, r.Owner, r.SandboxID)
	return http.StatusOK, struct {
		SandboxID string `json:"sandboxId"`
		Destroyed bool   `json:"destroyed"`
	}{r.SandboxID, true}, err
}

func (s *Server) findSandbox(ctx context.Context, e *entry, r *registry.Owner) (int, any, error) {
	e.about(*r, "")
	m, err := s.service.FindSandbox(ctx, *r)
	e.about(*r, m.SandboxID)
	return http.StatusOK, m, err
}

type touchRequest struct {
	ownerRequest
	TTLMS *int64 `json:"ttlMs"` // from now on, 0: none; absent: unchanged
}

func (s *Server) touchSandbox(ctx context.Context, e *entry, r *touchRequest) (int, any, error) {
	e.about(r.Owner, r.SandboxID)
	var ttl *time.Duration
	if r.TTLMS != nil {
		// A value out of range stays out of range as a duration.
		most := 1 + runtime.MaxLifetime.Milliseconds()
		d := time.Duration(min(max(*r.TTLMS, -most), most)) * time.Millisecond
		ttl = &d
	}
	err := s.service.TouchSandbox(ctx, r.Owner, r.SandboxID, ttl)
	return http.StatusOK, struct {
		SandboxID string `json:"sandboxId"`
	}{r.SandboxID}, err
}

func (s *Server) scan(ctx context.Context, _ *entry, _ *struct{}) (int, any, error) {
	found, err := s.service.ScanRunningSandboxes(ctx)
	caller := gate.CallerOf(ctx)
	found = slices.DeleteFunc(found, func(m registry.Metadata) bool { return !caller.May(m.Owner) })
	return http.StatusOK, struct {
		Sandboxes []registry.Metadata `json:"sandboxes"`
	}{append([]registry.Metadata{}, found...)}, err
}

type bashRequest struct {
	ownerRequest
	Command   string `json:"command"`
	Cwd       string `json:"cwd"`
	TimeoutMS int64  `json:"timeoutMs"` // 0: never
	// OperationID makes the command outlive the request and the service.
	OperationID string `json:"operationId"`
}

// maxTimeout is the largest timeout, in ms.
const maxTimeout = int64(1 << 40)

func (s *Server) executeBash(ctx context.Context, e *entry, r *bashRequest) (int, any, error) {
	e.about(r.Owner, r.SandboxID)
	if r.TimeoutMS < 0 || r.TimeoutMS > maxTimeout {
		return 0, nil, runtime.Errorf(runtime.ErrInvalid, "timeoutMs %d: out of range 0 to %d", r.TimeoutMS, maxTimeout)
	}
	res, err := s.service.ExecuteBash(ctx, r.Owner, &service.ExecuteBashParams{
		SandboxID: r.SandboxID, Command: r.Command, Cwd: r.Cwd, Timeout: time.Duration(r.TimeoutMS) * time.Millisecond,
		OperationID: r.OperationID,
	})
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, (*bashResult)(res), nil
}

type cancelRequest struct {
	ownerRequest
	OperationID string `json:"operationId"`
}

func (s *Server) cancelOperation(ctx context.Context, e *entry, r *cancelRequest) (int, any, error) {
	e.about(r.Owner, r.SandboxID)
	err := s.service.CancelOperation(ctx, r.Owner, r.SandboxID, r.OperationID)
	return http.StatusOK, struct {
		OperationID string `json:"operationId"`
	}{r.OperationID}, err
}

type readRequest struct {
	ownerRequest
	Path string `json:"path"`
	// Offset and Bytes ask for a part of the file: Offset counts from the end if it is
	// negative; without Bytes the part ends with the file, or after service.MaxFile.
	Offset *int64 `json:"offset"`
	Bytes  *int64 `json:"bytes"`
}

func (s *Server) readFile(ctx context.Context, e *entry, r *readRequest) (int, any, error) {
	if r.Offset != nil || r.Bytes != nil {
		return s.readRange(ctx, e, r)
	}
	e.about(r.Owner, r.SandboxID)
	content, err := s.service.ReadFile(ctx, r.Owner, r.SandboxID, r.Path)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, fileReply(content), nil
}

func (s *Server) readRange(ctx context.Context, e *entry, r *readRequest) (int, any, error) {
	i, err := s.in(ctx, e, &r.ownerRequest)
	if err != nil {
		return 0, nil, err
	}
	from, most := int64(0), int64(service.MaxFile)
	if r.Offset != nil {
		from = *r.Offset
	}
	if r.Bytes != nil {
		most = *r.Bytes
	}
	content, at, size, err := i.ReadRange(ctx, r.Path, from, most)
	return http.StatusOK, &rangeReply{content, at, size}, err
}

type writeRequest struct {
	ownerRequest
	Files map[string]service.File `json:"files"`
}

func (s *Server) writeFiles(ctx context.Context, e *entry, r *writeRequest) (int, any, error) {
	e.about(r.Owner, r.SandboxID)
	updated, err := s.service.WriteFiles(ctx, r.Owner, r.SandboxID, r.Files)
	reply := struct {
		Updated int `json:"updated"`
	}{updated}
	if err != nil {
		return 0, nil, &someError{err, reply}
	}
	return http.StatusOK, reply, nil
}
