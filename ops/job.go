package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/jsontext"
	"wolffia/runtime"
)

// Jobs are the background jobs of a session, which need not exist. A key is the id or the name of
// a job; the newest of a name is meant.
type Jobs struct {
	Runtime runtime.RuntimeWithSession
	Session runtime.SessionID
	User    string // of the session, if it is created: see runtime.SessionConfig
}

// Start starts a job, which may have a name, after earlier commands of the shell have ended. It
// creates the session if it does not exist.
func (s Jobs) Start(ctx context.Context, name string, cmd *runtime.Command) (*runtime.Job, error) {
	if strings.TrimSpace(strings.Join(cmd.Command, "")) == "" {
		return nil, runtime.Errorf(runtime.ErrInvalid, "the command is empty")
	}
	j, err := s.Runtime.StartJob(ctx, s.Session, name, cmd)
	if !errors.Is(err, runtime.ErrNotFound) {
		return j, err
	}
	sandbox, session, _ := s.Session.Split()
	_, err = s.Runtime.CreateSession(ctx, sandbox, &runtime.SessionConfig{Name: session, User: s.User})
	if err != nil && !errors.Is(err, runtime.ErrExists) {
		return nil, err
	}
	return s.Runtime.StartJob(ctx, s.Session, name, cmd)
}

// List returns the jobs, oldest first.
func (s Jobs) List(ctx context.Context) ([]*runtime.Job, error) {
	all, err := s.Runtime.SessionJobs(ctx, s.Session)
	if errors.Is(err, runtime.ErrNotFound) {
		sandbox, _, _ := s.Session.Split()
		if _, gone := s.Runtime.Get(ctx, sandbox); gone == nil {
			return nil, nil
		}
	}
	return all, err
}

// maxNamed is how many jobs an error names.
const maxNamed = 20

// Get returns a job. An unknown one is [runtime.ErrNotFound].
func (s Jobs) Get(ctx context.Context, key string) (*runtime.Job, error) {
	all, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	if j := named(all, key); j != nil {
		return j, nil
	}
	others := "there are no jobs"
	for i, j := range all[:min(len(all), maxNamed)] {
		if others += ", "; i == 0 {
			others = "the jobs are "
		}
		others += JobName(j)
	}
	return nil, runtime.Errorf(runtime.ErrNotFound, "no job %.100q: %s", key, others)
}

// JobName returns the id of a job and, if it has one, its name.
func JobName(j *runtime.Job) string {
	if j.Name == "" {
		return fmt.Sprintf("%.100s", strings.ToValidUTF8(j.ID, "\ufffd"))
	}
	return fmt.Sprintf("%.100s (%.100s)", strings.ToValidUTF8(j.ID, "\ufffd"), strings.ToValidUTF8(j.Name, "\ufffd"))
}

// Wait waits until a job has ended, or for the limit, and returns the job as it is then.
func (s Jobs) Wait(ctx context.Context, key string, limit time.Duration) (*runtime.Job, error) {
	j, err := s.Get(ctx, key)
	if err != nil || !j.EndedAt.IsZero() {
		return j, err
	}
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if _, err := s.Runtime.WaitJob(waiting, s.Session, j.ID); err != nil && (ctx.Err() != nil || waiting.Err() == nil) {
		return nil, err
	}
	return s.Get(ctx, j.ID)
}

// Signal sends a signal, such as TERM or SIGTERM, to all processes of a job, and returns the job.
func (s Jobs) Signal(ctx context.Context, key, name string) (*runtime.Job, error) {
	sig := Signal(name)
	if sig == 0 {
		return nil, runtime.Errorf(runtime.ErrInvalid, "signal %.100q: it must be a name such as TERM, INT or KILL", name)
	}
	j, err := s.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if err := s.Runtime.SignalJob(ctx, s.Session, j.ID, sig); err != nil {
		return nil, err
	}
	return s.Get(ctx, j.ID)
}

// named returns the newest job with this id or name; nil if none has. all is oldest first.
func named(all []*runtime.Job, key string) *runtime.Job {
	for _, j := range slices.Backward(all) {
		if j.ID == key || j.Name != "" && j.Name == key {
			return j
		}
	}
	return nil
}

// A JobOutput is a part of what a job has written.
type JobOutput struct{ Stdout, Stderr Part }

// A Part is a part of a stream of a job. Offsets are in bytes from the stream's beginning.
type Part struct {
	Bytes []byte
	// the offset of Bytes; larger than what was asked for if the bytes before are lost
	From uint64
	End  uint64 // of the stream, so far
}

// Next returns the offset behind the part.
func (p *Part) Next() uint64 { return p.From + uint64(len(p.Bytes)) }

// A TextPart is a Part as JSON has it.
type TextPart struct {
	Text  string `json:"text"`            // invalid UTF-8 is replaced
	Bytes []byte `json:"bytes,omitempty"` // the exact bytes, where Text is not
	From  uint64 `json:"from"`
	Next  uint64 `json:"next"` // where to go on
	End   uint64 `json:"end"`  // of the stream so far
}

// JSON returns the part for a reply.
func (p *Part) JSON() TextPart {
	text := string(p.Bytes)
	return TextPart{text, jsontext.Exact(text), p.From, p.Next(), p.End}
}

// Output returns at most so many bytes of each stream of a job, from the offsets on as far as they
// are kept; nil means the end of the stream.
func (s Jobs) Output(ctx context.Context, j *runtime.Job, stdout, stderr *uint64, most int) (*JobOutput, error) {
	o := &JobOutput{begin(&j.Stdout, stdout, most), begin(&j.Stderr, stderr, most)}
	p, err := s.Runtime.JobOutput(ctx, s.Session, j.ID, o.Stdout.From, o.Stderr.From, false)
	if err != nil {
		return nil, err
	}
	var sent [2]uint64
	read := func(n int, to *Part) Sink {
		return func(from io.Reader) error {
			to.Bytes, _ = io.ReadAll(io.LimitReader(from, int64(most)))
			rest, _ := io.Copy(io.Discard, from)
			sent[n] = uint64(len(to.Bytes)) + uint64(rest) // not negative
			return nil
		}
	}
	r, err := Follow(ctx, p, read(0, &o.Stdout), read(1, &o.Stderr))
	if err != nil {
		return nil, err
	}
	o.Stdout.sent(sent[0], r.StdoutEnd)
	o.Stderr.sent(sent[1], r.StderrEnd)
	return o, nil
}

// sent notes that the sandbox has sent n bytes, of which the part has the first, and says that
// they go up to end. It may have dropped more since the part was begun than was dropped then.
func (p *Part) sent(n, end uint64) {
	if end = min(end, maxOffset); end >= n {
		p.From = max(p.From, end-n)
	}
	p.End = max(p.End, p.From+n)
}

// maxOffset bounds what the sandbox says of its streams, so that no sum of offsets is too large.
const maxOffset = 1 << 62

// begin returns where to read a stream: at the offset that is asked for, as far as that is kept,
// or so many bytes before its end.
func begin(s *runtime.JobStream, asked *uint64, most int) Part {
	start, end := min(s.Start, maxOffset), min(s.End, maxOffset)
	from := end - min(end, uint64(most)) // positive
	if asked != nil {
		from = *asked
	}
	return Part{From: max(start, min(from, end)), End: end}
}

// Signal returns the signal of a name, such as TERM or SIGTERM; 0 if it is unknown.
func Signal(name string) syscall.Signal {
	name = strings.ToUpper(name)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	return unix.SignalNum(name)
}
