package server

import (
	"bufio"
	"context"

	"wolffia/ops"
	"wolffia/runtime"
	"wolffia/service"
)

// defaultOutput is how many bytes of each stream of a job a reply has if the request does not
// say.
const defaultOutput = 1 << 20

// maxOutput is how many bytes of each stream a reply has at most.
const maxOutput = 8 << 20

// A jobRequest means a job by its id or name.
type jobRequest struct {
	ownerRequest
	Session string `json:"session"` // empty: the persistent shell
	Job     string `json:"job"`
}

// jobReply is the reply of calls that return a job.
type jobReply struct {
	Job *runtime.Job `json:"job"`
}

type startJobRequest struct {
	ownerRequest
	Session string            `json:"session"`
	Name    string            `json:"name"`
	Command string            `json:"command"`
	Cwd     string            `json:"cwd"`
	Env     map[string]string `json:"env"`
}

func startJob(ctx context.Context, i *service.Inside, r *startJobRequest) (any, error) {
	for k, v := range r.Env {
		if err := runtime.CheckVariable(k, v); err != nil {
			return nil, err
		}
	}
	j, err := i.Jobs(r.Session).Start(ctx, r.Name, &runtime.Command{Command: []string{r.Command}, Cwd: r.Cwd, Env: r.Env})
	return jobReply{j}, err
}

type listJobsRequest struct {
	ownerRequest
	Session string `json:"session"`
}

type jobsReply struct {
	Jobs []*runtime.Job `json:"jobs"`
}

func listJobs(ctx context.Context, i *service.Inside, r *listJobsRequest) (any, error) {
	all, err := i.Jobs(r.Session).List(ctx)
	return jobsReply{append([]*runtime.Job{}, all...)}, err
}

type jobOutputRequest struct {
	jobRequest
	StdoutOffset *uint64 `json:"stdoutOffset"` // absent: the end of the stream
	StderrOffset *uint64 `json:"stderrOffset"`
	MaxBytes     int     `json:"maxBytes"` // of each stream; 0: 1 MiB
}

func jobOutput(ctx context.Context, i *service.Inside, r *jobOutputRequest) (any, error) {
	if r.MaxBytes == 0 {
		r.MaxBytes = defaultOutput
	}
	if r.MaxBytes < 1 || r.MaxBytes > maxOutput {
		return nil, runtime.Errorf(runtime.ErrInvalid, "%d bytes of output: it must be from 1 to %d", r.MaxBytes, maxOutput)
	}
	of := i.Jobs(r.Session)
	j, err := of.Get(ctx, r.Job)
	if err != nil {
		return nil, err
	}
	out, err := of.Output(ctx, j, r.StdoutOffset, r.StderrOffset, r.MaxBytes)
	if err != nil {
		return nil, err
	}
	return jobOutputReply{j, out.Stdout.JSON(), out.Stderr.JSON()}, nil
}

type jobOutputReply struct {
	Job    *runtime.Job `json:"job"`
	Stdout ops.TextPart `json:"stdout"`
	Stderr ops.TextPart `json:"stderr"`
}

type waitJobRequest struct {
	jobRequest
	TimeoutMS int64 `json:"timeoutMs"` // 0: at once
}

func waitJob(ctx context.Context, i *service.Inside, r *waitJobRequest) (any, error) {
	timeout, err := timeoutOf(r.TimeoutMS)
	if err != nil {
		return nil, err
	}
	j, err := i.Jobs(r.Session).Wait(ctx, r.Job, timeout)
	return jobReply{j}, err
}

type signalJobRequest struct {
	jobRequest
	Signal string `json:"signal"`
}

func signalJob(ctx context.Context, i *service.Inside, r *signalJobRequest) (any, error) {
	j, err := i.Jobs(r.Session).Signal(ctx, r.Job, r.Signal)
	return jobReply{j}, err
}

type auditRequest struct {
	ownerRequest
	Limit int `json:"limit"` // 0: 1000
}

type auditReply struct {
	Denied []service.Denied `json:"denied"`
	Before int              `json:"before"` // how many older ones are left out
}

func audit(ctx context.Context, i *service.Inside, r *auditRequest) (any, error) {
	if r.Limit == 0 {
		r.Limit = 1000
	}
	list, before, err := i.Audit(ctx, r.Limit)
	return auditReply{list, before}, err
}

type rulesRequest struct {
	ownerRequest
	Path string `json:"path"`
}

func rules(ctx context.Context, i *service.Inside, r *rulesRequest) (any, error) {
	rules, err := i.Rules(ctx, r.Path)
	return rules, err
}

// A rangeReply is the reply to readFile of a part of a file.
type rangeReply struct {
	content  []byte
	at, size int64
}

func (r *rangeReply) encode(w *bufio.Writer) error {
	if err := fileReply(r.content).begin(w); err != nil {
		return err
	}
	return encodeRest(w, struct {
		Offset int64 `json:"offset"`
		Size   int64 `json:"size"`
	}{r.at, r.size})
}
