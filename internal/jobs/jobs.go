// Package jobs reads the background jobs of sessions, for those that serve them to clients.
package jobs

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

// Named returns the newest job with this id or name; nil if there is none. all is oldest first.
func Named(all []*runtime.Job, key string) *runtime.Job {
	for _, j := range slices.Backward(all) {
		if j.ID == key || j.Name != "" && j.Name == key {
			return j
		}
	}
	return nil
}

// A Part is a part of a stream of a job. Offsets are in bytes from the stream's beginning.
type Part struct {
	Bytes []byte
	From  uint64 // the offset of Bytes
	End   uint64 // of the stream, so far
}

// Read returns at most so many bytes of each stream of a job, from the offsets on as far as they
// are kept; nil means the end of the stream.
func Read(ctx context.Context, rt runtime.JobManager, session runtime.SessionID, j *runtime.Job, stdout, stderr *uint64, most int) (out, errs Part, err error) {
	out, errs = begin(&j.Stdout, stdout, most), begin(&j.Stderr, stderr, most)
	p, err := rt.JobOutput(ctx, session, j.ID, out.From, errs.From, false)
	if err != nil {
		return out, errs, err
	}
	defer p.Close()
	defer context.AfterFunc(ctx, func() { _ = p.Close() })()
	var reading sync.WaitGroup
	var sent [2]uint64
	read := func(n int, to *Part, from io.Reader) {
		reading.Go(func() { // ends with the output
			to.Bytes, _ = io.ReadAll(io.LimitReader(from, int64(most)))
			rest, _ := io.Copy(io.Discard, from)
			sent[n] = uint64(len(to.Bytes)) + uint64(rest) // not negative
		})
	}
	read(0, &out, p.Stdout())
	read(1, &errs, p.Stderr())
	exit, err := p.Wait(ctx)
	if err != nil {
		_ = p.Close()
	}
	reading.Wait()
	out.sent(sent[0], exit.StdoutEnd)
	errs.sent(sent[1], exit.StderrEnd)
	return out, errs, err
}

// sent notes that the sandbox has sent n bytes, of which the part has the first, and says that they go up to end. It may have dropped more since the part
// was begun than was dropped then.
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

// Signal returns the signal of a name, such as TERM or SIGTERM; 0 if there is none.
func Signal(name string) syscall.Signal {
	name = strings.ToUpper(name)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	return unix.SignalNum(name)
}
