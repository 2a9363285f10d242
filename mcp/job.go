package mcp

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"wolffia/ops"
	"wolffia/runtime"
)

type jobStartIn struct {
	Command string `json:"command" jsonschema:"what the shell evaluates in the background"`
	Name    string `json:"name,omitempty" jsonschema:"name of the job, by which it can be meant as well as by its id"`
	Cwd     string `json:"cwd,omitempty" jsonschema:"working directory; empty: where the shell is"`
}

type jobOutputIn struct {
	Job      string `json:"job" jsonschema:"id or name"`
	Stdout   *int64 `json:"stdout_offset,omitempty" jsonschema:"return standard output from this byte on; default: the end of it"`
	Stderr   *int64 `json:"stderr_offset,omitempty" jsonschema:"return standard error from this byte on; default: the end of it"`
	MaxBytes int    `json:"max_bytes,omitempty" jsonschema:"of each stream; default 30000, at most 1000000"`
}

type jobWaitIn struct {
	Job       string `json:"job" jsonschema:"id or name"`
	TimeoutMS int64  `json:"timeout_ms,omitempty" jsonschema:"wait no longer than this; the job continues; default as of bash"`
	MaxBytes  int    `json:"max_bytes,omitempty" jsonschema:"of each stream; default 30000, at most 1000000"`
}

type jobKillIn struct {
	Job    string `json:"job" jsonschema:"id or name"`
	Signal string `json:"signal,omitempty" jsonschema:"such as TERM, which is the default, INT or KILL; all processes of the job get it"`
}

// A job is what results tell of a job.
type job struct {
	ID       string `json:"id"`
	Name     string `json:"name,omitempty"`
	State    string `json:"state" jsonschema:"running, stopped or ended"`
	ExitCode *int   `json:"exit_code,omitempty" jsonschema:"of one that has ended, if it is known"`
	Command  string `json:"command" jsonschema:"its beginning"`
	PIDs     []int  `json:"pids,omitempty"`
	RanMS    int64  `json:"ran_ms"`
}

type jobOut struct {
	Job    job       `json:"job"`
	Stdout jobStream `json:"stdout"`
	Stderr jobStream `json:"stderr"`
}

// A jobStream is a part of a stream of a job.
type jobStream struct {
	Text  string `json:"text"`
	From  int64  `json:"from" jsonschema:"offset of the first byte of text"`
	Next  int64  `json:"next" jsonschema:"offset at which to go on"`
	Total int64  `json:"total" jsonschema:"bytes of the whole stream so far"`
}

type jobStarted struct {
	Job job `json:"job"`
}

func (s *Server) addJobs() {
	tool(s, &sdk.Tool{
		Name: "bash_background", Title: "Start a background job",
		Description: "Start a command in the background, with the shell's variables and functions, and return at once with the job's id. " +
			"For servers, watchers and what takes minutes: then use job_output, job_wait and job_kill.",
		Annotations: &sdk.ToolAnnotations{OpenWorldHint: new(false)},
	}, (*call).jobStart)
	tool(s, &sdk.Tool{
		Name: "job_output", Title: "Read a job's output",
		Description: "Return what a background job has written: the end of it, or what follows the offsets of an earlier result. The last MiB of each stream is kept.",
		Annotations: reads(),
	}, (*call).jobOutput)
	tool(s, &sdk.Tool{
		Name: "job_wait", Title: "Wait for a job",
		Description: "Wait until a background job has ended, and return its exit code and the end of its output. After timeout_ms the job's state is still running.",
		Annotations: reads(),
	}, (*call).jobWait)
	tool(s, &sdk.Tool{
		Name: "job_kill", Title: "Signal a job",
		Description: "Send a signal to all processes of a background job.",
		Annotations: &sdk.ToolAnnotations{OpenWorldHint: new(false)},
	}, (*call).jobKill)
}

// jobOf returns what results tell of a job.
func jobOf(j *runtime.Job) job {
	end := j.EndedAt
	if end.IsZero() {
		end = time.Now()
	}
	return job{
		ID: j.ID, Name: valid([]byte(j.Name)), State: j.State, ExitCode: j.ExitCode, Command: valid([]byte(j.Command)),
		PIDs: j.PIDs[:min(len(j.PIDs), maxPIDs)], RanMS: end.Sub(j.StartedAt).Milliseconds(),
	}
}

// maxPIDs is how many processes of a job a result names.
const maxPIDs = 100

// line is one line about a job.
func (j *job) line() string {
	s := "job " + j.ID
	if j.Name != "" {
		s += " (" + j.Name + ")"
	}
	s += " " + j.State
	if j.ExitCode != nil {
		s += fmt.Sprintf(", exit code %d", *j.ExitCode)
	}
	return s + ": " + j.Command
}

func (c *call) jobStart(ctx context.Context, in jobStartIn) (reply, *jobStarted, error) {
	dir, err := c.dir(ctx, in.Cwd)
	if err != nil {
		return reply{}, nil, err
	}
	j, err := c.jobs().Start(ctx, in.Name, &runtime.Command{Command: []string{in.Command}, Cwd: dir})
	if err != nil {
		return reply{}, nil, err
	}
	out := &jobStarted{jobOf(j)}
	return reply{text: out.Job.line()}, out, nil
}

// jobs returns the jobs of the session, which need not exist.
func (c *call) jobs() ops.Jobs { return ops.Jobs{Runtime: c.Runtime, Session: c.session()} }

func (c *call) jobOutput(ctx context.Context, in jobOutputIn) (reply, *jobOut, error) {
	most, err := count("max_bytes", in.MaxBytes, DefaultOutput, MaxOutput)
	if err != nil {
		return reply{}, nil, err
	}
	out, err := c.readJob(ctx, in.Job, in.Stdout, in.Stderr, most)
	if err != nil {
		return reply{}, nil, err
	}
	return reply{text: out.text()}, out, nil
}

// readJob returns a job and its output from the offsets on, or the end of it. At most so many
// bytes of each stream are returned.
func (c *call) readJob(ctx context.Context, key string, stdout, stderr *int64, most int) (*jobOut, error) {
	j, err := c.jobs().Get(ctx, key)
	if err != nil {
		return nil, err
	}
	out, err := c.jobs().Output(ctx, j, offset(stdout), offset(stderr), most)
	if err != nil {
		return nil, err
	}
	return &jobOut{Job: jobOf(j), Stdout: streamOf(&out.Stdout), Stderr: streamOf(&out.Stderr)}, nil
}

// offset returns an offset that a client has sent, in which a negative one is the beginning.
func offset(asked *int64) *uint64 {
	if asked == nil {
		return nil
	}
	at := uint64(max(*asked, 0))
	return &at
}

// streamOf returns a part of a stream as a result has it.
func streamOf(p *ops.Part) jobStream {
	return jobStream{Text: valid(p.Bytes), From: int64(p.From), Next: int64(p.Next()), Total: int64(p.End)} // bounded by Output
}

func (o *jobOut) text() string {
	var b strings.Builder
	for _, s := range []struct {
		name string
		*jobStream
	}{{"stdout", &o.Stdout}, {"stderr", &o.Stderr}} {
		if s.Text == "" && s.name == "stderr" {
			continue
		}
		fmt.Fprintf(&b, "[%s, bytes %d to %d of %d]\n%s", s.name, s.From, s.Next, s.Total, s.Text)
		endLine(&b)
	}
	b.WriteString("[" + o.Job.line() + "]")
	return b.String()
}

func (c *call) jobWait(ctx context.Context, in jobWaitIn) (reply, *jobOut, error) {
	most, err := count("max_bytes", in.MaxBytes, DefaultOutput, MaxOutput)
	if err != nil {
		return reply{}, nil, err
	}
	limit, err := c.timeLimit(in.TimeoutMS)
	if err != nil {
		return reply{}, nil, err
	}
	j, err := c.jobs().Get(ctx, in.Job)
	if err != nil {
		return reply{}, nil, err
	}
	notes := c.progress(ctx, func() string { return "job " + ops.JobName(j) + " runs" })
	defer notes.stop()
	if _, err := c.jobs().Wait(ctx, j.ID, limit); err != nil {
		return reply{}, nil, err
	}
	out, err := c.readJob(ctx, j.ID, nil, nil, most)
	if err != nil {
		return reply{}, nil, err
	}
	return reply{text: out.text()}, out, nil
}

func (c *call) jobKill(ctx context.Context, in jobKillIn) (reply, *jobStarted, error) {
	name := cmp.Or(in.Signal, "TERM")
	j, err := c.jobs().Signal(ctx, in.Job, name)
	if err != nil {
		return reply{}, nil, err
	}
	out := &jobStarted{jobOf(j)}
	return reply{text: unix.SignalName(ops.Signal(name)) + " was sent; " + out.Job.line()}, out, nil
}
