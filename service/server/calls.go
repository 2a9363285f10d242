package server

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"time"

	"wolffia/fields"
	"wolffia/network"
	"wolffia/ops"
	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/registry"
)

// A call is a call of the API.
type call struct {
	maxBody int64 // of the request, in bytes
	// do decodes the request and executes it. It notes in e what may be logged.
	do func(s *Server, ctx context.Context, e *entry, body []byte) (status int, reply any, err error)
	// in and out are the types of the request and of the reply, for the document of the API.
	in, out reflect.Type
	summary string
}

// The largest sizes of requests, in bytes.
const (
	smallBody   = 64 << 10
	reviewBody  = 1 << 20
	commandBody = 8 << 20
	filesBody   = 64 << 20 // one file of ops.MaxFile, in base64
)

// calls are the calls of the API, by name.
var calls = map[string]call{
	"createSandbox":  typed[registry.Metadata](smallBody, "create the owner's sandbox", (*Server).createSandbox),
	"ensureSandbox":  typed[ensureReply](smallBody, "return the owner's sandbox; make it if none answers", (*Server).ensureSandbox),
	"addSandbox":     creates(typed[sandboxReply](smallBody, "create one more sandbox of the owner: any number", (*Server).addSandbox)),
	"listSandboxes":  typed[sandboxesReply](smallBody, "list the sandboxes of the owner, newest first", (*Server).listSandboxes),
	"changeNetwork":  typed[egressReply](smallBody, "replace what a sandbox with a filtered network can reach", (*Server).changeNetwork),
	"destroySandbox": typed[destroyReply](smallBody, "destroy a sandbox", (*Server).destroySandbox),
	"findSandbox":    typed[registry.Metadata](smallBody, "return the owner's sandbox", (*Server).findSandbox),
	"pauseSandbox": inside[touchReply](smallBody,
		"have the processes of a sandbox stand still, if its runtime can", pauseSandbox),
	"resumeSandbox": with[touchReply](smallBody,
		"have the processes of a paused sandbox run on", (*service.Service).Thaw, resumed),
	"questions":      inside[questionsReply](smallBody, "return the accesses that wait for an answer, once they are others", questions),
	"answerQuestion": inside[answerReply](smallBody, "answer one, if the service allows that", answerQuestion),
	"touchSandbox":   typed[touchReply](smallBody, "restart a sandbox's idle time, and set its time to live", (*Server).touchSandbox),
	"executeBash":    typed[bashDocument](commandBody, "evaluate a command in the owner's shell", (*Server).executeBash),
	"streamBash": inside[outputEvent](commandBody,
		"evaluate a command, and send its output as it comes", streamBash),
	"cancelOperation": typed[cancelReply](smallBody, "interrupt a command", (*Server).cancelOperation),
	"runCommand": inside[programDocument](filesBody,
		"run a program beside the owner's shell to its end", runCommand),
	"streamCommand": inside[outputEvent](commandBody,
		"run a program beside the owner's shell, and send its output as it comes", streamCommand),
	"startJob":   creates(inside[jobReply](commandBody, "start a background job", startJob)),
	"listJobs":   inside[jobsReply](smallBody, "list background jobs", listJobs),
	"jobOutput":  inside[jobOutputReply](smallBody, "return a part of the output of a job", jobOutput),
	"waitJob":    inside[jobReply](smallBody, "wait until a job has ended", waitJob),
	"signalJob":  inside[jobReply](smallBody, "send a signal to the processes of a job", signalJob),
	"readFile":   typed[fileDocument](smallBody, "read a file, or a part of it", (*Server).readFile),
	"writeFiles": typed[writeReply](filesBody, "write files, or parts of them", (*Server).writeFiles),
	"rules":      inside[service.Rules](smallBody, "return the rules, and what they give for a path", rules),
	"audit":      inside[auditReply](smallBody, "return what was denied", audit),
	"changes":    review[changesDocument](reviewBody, "list what a sandbox with cow has changed", changes),
	"diff": review[diffDocument](reviewBody,
		"return what a sandbox with cow has changed, as a unified diff", diff),
	"applyChanges": review[applyDocument](reviewBody,
		"make changes of a sandbox in the host's directory, if the service allows that", applyChanges),
	"discardChanges": review[discardReply](reviewBody, "take changes of a sandbox back", discardChanges),
	"forkSandbox": creates(review[forkReply](smallBody,
		"create sandboxes with the changes of another, and with its memory", forkSandbox)),
	"createSnapshot": creates(review[runtime.Snapshot](smallBody,
		"keep a copy of the changes of a sandbox, and of its memory", createSnapshot)),
	"listSnapshots": review[snapshotsReply](smallBody,
		"list the snapshots of a sandbox, oldest first", listSnapshots),
	"restoreSnapshot": review[snapshotReply](smallBody,
		"replace the changes of a sandbox by a snapshot; its processes end", restoreSnapshot),
	"removeSnapshot":       review[snapshotReply](smallBody, "delete a snapshot", removeSnapshot),
	"listOwners":           typed[ownersReply](smallBody, "list owners, and what they have", (*Server).owners),
	"scanRunningSandboxes": typed[scanReply](smallBody, "list the running sandboxes of owners", (*Server).scan),
}

// typed returns a call that decodes the request and calls f with it. Out is the type of the
// reply as the document of the API has it.
func typed[Out, R any](maxBody int64, summary string, f func(s *Server, ctx context.Context, e *entry, r *R) (int, any, error)) call {
	return call{maxBody, func(s *Server, ctx context.Context, e *entry, body []byte) (int, any, error) {
		var r R
		if err := decode(body, &r); err != nil {
			return 0, nil, err
		}
		if err := mayActFor(service.CallerOf(ctx), &r); err != nil {
			return 0, nil, err
		}
		return f(s, ctx, e, &r)
	}, reflect.TypeFor[R](), reflect.TypeFor[Out](), summary}
}

// A sandboxRequest is of type *R, and has an [ownerRequest] in it.
type sandboxRequest[R any] interface {
	*R
	about() *ownerRequest
}

// inside is typed for calls that work in a running sandbox.
func inside[Out, R any, P sandboxRequest[R]](
	maxBody int64, summary string, f func(ctx context.Context, i *service.Inside, r *R) (any, error),
) call {
	return with[Out, R, P](maxBody, summary, (*service.Service).Inside, f)
}

// review is typed for calls on the changes of a sandbox.
func review[Out, R any, P sandboxRequest[R]](
	maxBody int64, summary string, f func(ctx context.Context, v *service.Review, r *R) (any, error),
) call {
	return with[Out, R, P](maxBody, summary, (*service.Service).Review, f)
}

// with is typed for calls that work with a handle on the sandbox that a request names.
func with[Out, R any, P sandboxRequest[R], H any](
	maxBody int64, summary string,
	handle func(*service.Service, context.Context, service.Caller, string) (H, error),
	f func(context.Context, H, *R) (any, error),
) call {
	return typed[Out](maxBody, summary, func(s *Server, ctx context.Context, e *entry, r *R) (int, any, error) {
		of := P(r).about()
		e.about(of.Owner, of.SandboxID)
		if err := of.Validate(); err != nil {
			return 0, nil, err
		}
		h, err := handle(s.service, ctx, service.Caller{Owner: of.Owner}, of.SandboxID)
		if err != nil {
			return 0, nil, err
		}
		reply, err := f(ctx, h, r)
		return http.StatusOK, reply, err
	})
}

// creates returns c with the status of a call that creates something.
func creates(c call) call {
	do := c.do
	c.do = func(s *Server, ctx context.Context, e *entry, body []byte) (int, any, error) {
		_, reply, err := do(s, ctx, e, body)
		return http.StatusCreated, reply, err
	}
	return c
}

// mayActFor returns an error unless the caller may use what belongs to the owner that a request
// names. A request without fields is about all owners: its call leaves out what the caller may not
// see. Any other request that names no owner is refused.
func mayActFor(caller service.Caller, request any) error {
	switch r := request.(type) {
	case *struct{}:
		return nil
	case interface{ Named() registry.Owner }:
		if caller.May(r.Named()) {
			return nil
		}
	}
	return runtime.Errorf(runtime.ErrDenied, "the API key is for another owner")
}

// An ownerRequest names the owner and, for calls about a sandbox, the sandbox.
type ownerRequest struct {
	registry.Owner
	SandboxID string `json:"sandboxId"`
}

func (r *ownerRequest) about() *ownerRequest { return r }

type createRequest struct {
	registry.Owner
	GitConfig *service.GitConfig `json:"gitConfig"`
	Network   runtime.Network    `json:"network"`
	Egress    *network.Policy    `json:"egress"`
	fields.Asked
}

func (r *createRequest) params() *service.Params {
	return &service.Params{GitConfig: r.GitConfig, Network: r.Network, Egress: r.Egress, Settings: r.Values}
}

func (s *Server) createSandbox(ctx context.Context, e *entry, r *createRequest) (int, any, error) {
	e.about(r.Owner, "")
	m, err := s.service.Owned().CreateSandbox(ctx, r.Owner, r.params())
	e.about(r.Owner, m.SandboxID)
	return http.StatusCreated, m, err
}

func (s *Server) ensureSandbox(ctx context.Context, e *entry, r *createRequest) (int, any, error) {
	e.about(r.Owner, "")
	m, created, err := s.service.Owned().EnsureSandbox(ctx, r.Owner, r.params())
	e.about(r.Owner, m.SandboxID)
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return status, ensureReply{m, created}, err
}

type ensureReply struct {
	registry.Metadata
	Created bool `json:"created"`
}

func (s *Server) destroySandbox(ctx context.Context, e *entry, r *ownerRequest) (int, any, error) {
	e.about(r.Owner, r.SandboxID)
	err := s.service.Owned().DestroySandbox(ctx, r.Owner, r.SandboxID)
	return http.StatusOK, destroyReply{r.SandboxID, true}, err
}

type destroyReply struct {
	SandboxID string `json:"sandboxId"`
	Destroyed bool   `json:"destroyed"`
}

func (s *Server) findSandbox(ctx context.Context, e *entry, r *registry.Owner) (int, any, error) {
	e.about(*r, "")
	m, err := s.service.Owned().FindSandbox(ctx, *r)
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
	err := s.service.Owned().TouchSandbox(ctx, r.Owner, r.SandboxID, ttl)
	return http.StatusOK, touchReply{r.SandboxID}, err
}

func pauseSandbox(ctx context.Context, i *service.Inside, r *ownerRequest) (any, error) {
	return touchReply{r.SandboxID}, i.Pause(ctx)
}

func resumed(_ context.Context, _ *service.Sandbox, r *ownerRequest) (any, error) {
	return touchReply{r.SandboxID}, nil
}

type touchReply struct {
	SandboxID string `json:"sandboxId"`
}

func (s *Server) scan(ctx context.Context, _ *entry, _ *struct{}) (int, any, error) {
	found, err := s.service.Owned().ScanRunningSandboxes(ctx)
	caller := service.CallerOf(ctx)
	found = slices.DeleteFunc(found, func(m registry.Metadata) bool { return !caller.May(m.Owner) })
	return http.StatusOK, scanReply{append([]registry.Metadata{}, found...)}, err
}

func (s *Server) owners(ctx context.Context, _ *entry, _ *struct{}) (int, any, error) {
	found, err := s.service.Owners(ctx, service.CallerOf(ctx))
	return http.StatusOK, ownersReply{append([]service.OwnerUsage{}, found...)}, err
}

type ownersReply struct {
	Owners []service.OwnerUsage `json:"owners"`
}

type scanReply struct {
	Sandboxes []registry.Metadata `json:"sandboxes"`
}

type bashRequest struct {
	ownerRequest
	Command   string `json:"command"`
	Cwd       string `json:"cwd"`
	TimeoutMS int64  `json:"timeoutMs"` // 0: never
}

// maxTimeout is the largest timeout, in ms.
const maxTimeout = int64(1 << 40)

// asked returns the command of a request.
func (r *bashRequest) asked() (*runtime.Command, error) {
	timeout, err := timeoutOf(r.TimeoutMS)
	return &runtime.Command{Command: []string{r.Command}, Cwd: r.Cwd, Timeout: timeout}, err
}

type operationRequest struct {
	bashRequest
	// OperationID makes the command outlive the request and the service.
	OperationID string `json:"operationId"`
}

func (s *Server) executeBash(ctx context.Context, e *entry, r *operationRequest) (int, any, error) {
	e.about(r.Owner, r.SandboxID)
	cmd, err := r.asked()
	if err != nil {
		return 0, nil, err
	}
	cmd.Operation = r.OperationID
	res, err := s.service.Owned().ExecuteBash(ctx, r.Owner, r.SandboxID, cmd)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, res, nil
}

type cancelRequest struct {
	ownerRequest
	OperationID string `json:"operationId"`
}

func (s *Server) cancelOperation(ctx context.Context, e *entry, r *cancelRequest) (int, any, error) {
	e.about(r.Owner, r.SandboxID)
	err := s.service.Owned().CancelOperation(ctx, r.Owner, r.SandboxID, r.OperationID)
	return http.StatusOK, cancelReply{r.OperationID}, err
}

type cancelReply struct {
	OperationID string `json:"operationId"`
}

type readRequest struct {
	ownerRequest
	Path string `json:"path"`
	// Offset and Bytes ask for a part of the file: Offset counts from the end if it is
	// negative; without Bytes the part ends with the file, or after ops.MaxFile.
	Offset *int64 `json:"offset"`
	Bytes  *int64 `json:"bytes"`
}

func (s *Server) readFile(ctx context.Context, e *entry, r *readRequest) (int, any, error) {
	if r.Offset != nil || r.Bytes != nil {
		return s.readRange(ctx, e, r)
	}
	e.about(r.Owner, r.SandboxID)
	content, err := s.service.Owned().ReadFile(ctx, r.Owner, r.SandboxID, r.Path)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, fileReply(content), nil
}

func (s *Server) readRange(ctx context.Context, e *entry, r *readRequest) (int, any, error) {
	e.about(r.Owner, r.SandboxID)
	if err := r.Validate(); err != nil {
		return 0, nil, err
	}
	i, err := s.service.Inside(ctx, service.Caller{Owner: r.Owner}, r.SandboxID)
	if err != nil {
		return 0, nil, err
	}
	from, most := int64(0), int64(ops.MaxFile)
	if r.Offset != nil {
		from = *r.Offset
	}
	if r.Bytes != nil {
		most = *r.Bytes
	}
	content, at, size, err := i.Files().Range(ctx, r.Path, from, most)
	return http.StatusOK, &rangeReply{content, at, size}, err
}

type writeRequest struct {
	ownerRequest
	Files map[string]service.File `json:"files"`
}

func (s *Server) writeFiles(ctx context.Context, e *entry, r *writeRequest) (int, any, error) {
	e.about(r.Owner, r.SandboxID)
	updated, err := s.service.Owned().WriteFiles(ctx, r.Owner, r.SandboxID, r.Files)
	reply := writeReply{updated}
	if err != nil {
		return 0, nil, &someError{err, reply}
	}
	return http.StatusOK, reply, nil
}

type writeReply struct {
	Updated int `json:"updated"`
}
