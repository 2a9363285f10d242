package mock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

// quiet is how long a stream is still read that outlives its process, because
// one in the background holds it.
const quiet = 20 * time.Millisecond

// A process is a plain one of the host, or what a Handler said of one.
type process struct {
	cmd    *exec.Cmd // nil: a Handler's
	tag    string
	stdin  io.WriteCloser
	stdout *output
	stderr *output
	done   chan struct{} // closed when exit and lost are set

	mu   sync.Mutex
	exit runtime.Result // guarded by mu
	lost error          // why its end is unknown; guarded by mu
}

var _ runtime.Process = (*process)(nil)

// answered is a process that a Handler has answered for.
func answered(res *runtime.Result, merge bool) *process {
	out, errs := bytes.Clone(res.Stdout), res.Stderr
	if merge {
		out, errs = append(out, errs...), nil
	}
	p := &process{
		stdin: nobody{}, stdout: &output{r: bytes.NewReader(out)}, stderr: &output{r: bytes.NewReader(errs)}, done: make(chan struct{}),
		exit: runtime.Result{ExitCode: res.ExitCode, Signal: res.Signal, TimedOut: res.TimedOut},
	}
	close(p.done)
	return p
}

// nobody is the standard input of a process that does not read.
type nobody struct{}

func (nobody) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
func (nobody) Close() error              { return nil }

// An output is what a process says on one stream.
type output struct {
	r     io.Reader
	ended atomic.Bool // the process is gone
	late  bool        // it was read for quiet since; the reader's
	owed  int         // bytes that were in the pipe then; the reader's
}

func (o *output) Read(b []byte) (int, error) {
	f, pipe := o.r.(*os.File)
	if pipe && o.ended.Load() {
		_ = f.SetReadDeadline(time.Now().Add(quiet))
	}
	n, err := o.r.Read(b)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return o.rest(f, b)
	case errors.Is(err, os.ErrClosed):
		err = io.EOF
	}
	return n, err
}

// rest reads what was in the pipe when time was over: that may have been before
// anybody came to read.
func (o *output) rest(f *os.File, b []byte) (n int, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, io.EOF
	}
	_ = conn.Control(func(fd uintptr) {
		if !o.late {
			o.late = true
			o.owed, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) // FIONREAD
		}
		if o.owed > 0 {
			n, _ = unix.Read(int(fd), b[:min(len(b), o.owed)])
		}
	})
	if n <= 0 {
		return 0, io.EOF
	}
	o.owed -= n
	return n, nil
}

// end says that the process is gone.
func (o *output) end() {
	o.ended.Store(true)
	if f, pipe := o.r.(*os.File); pipe {
		_ = f.SetReadDeadline(time.Now().Add(quiet))
	}
}

func (o *output) close() {
	if f, pipe := o.r.(*os.File); pipe {
		_ = f.Close()
	}
}

// run starts a program in b, whose mu is held.
func (s *sandbox) run(spec *runtime.Command) (*process, error) {
	p := &process{tag: s.tag + fmt.Sprint(serial.Add(1)) + ";", stdin: nobody{}, done: make(chan struct{})}
	dir := s.cwd(spec.Cwd)
	env := s.environment(spec, p.tag)
	path, err := lookPath(spec.Command[0], dir, env)
	if err != nil {
		return nil, err
	}
	p.cmd = &exec.Cmd{Path: path, Args: spec.Command, Env: env, Dir: dir, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	var theirs []io.Closer
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
	}()
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
		}
		return r, w
	}
	if spec.OpenStdin {
		r, w := pipe()
		p.cmd.Stdin, p.stdin, theirs = r, w, append(theirs, r)
	}
	r, w := pipe()
	p.cmd.Stdout, p.stdout, theirs = w, &output{r: r}, append(theirs, w)
	if spec.Merge {
		p.cmd.Stderr, p.stderr = w, &output{r: bytes.NewReader(nil)}
	} else {
		r, w := pipe()
		p.cmd.Stderr, p.stderr, theirs = w, &output{r: r}, append(theirs, w)
	}
	if err != nil {
		return nil, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	if err := p.cmd.Start(); err != nil {
		p.release()
		return nil, startError(spec.Command[0], err)
	}
	s.processes[p] = true
	if spec.Started != nil {
		spec.Started(p.cmd.Process.Pid)
	}
	go p.reap(s, spec.Timeout) // ends with the process
	return p, nil
}

// serial numbers processes.
var serial atomic.Int64

// reap waits for the process and records its end.
func (p *process) reap(s *sandbox, timeout time.Duration) {
	var timedOut atomic.Bool
	if timeout > 0 {
		defer time.AfterFunc(timeout, func() {
			timedOut.Store(true)
			killAll(p.tag)
		}).Stop()
	}
	_ = p.cmd.Wait() // its error is in ProcessState
	ws := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	exit := runtime.Result{ExitCode: ws.ExitStatus(), TimedOut: timedOut.Load()}
	if ws.Signaled() {
		exit.Signal = ws.Signal()
		exit.ExitCode = 128 + int(exit.Signal)
	}
	p.mu.Lock()
	p.exit = exit
	p.mu.Unlock()
	p.stdout.end()
	p.stderr.end()
	_ = p.stdin.Close() // a writer gets an error
	close(p.done)
	s.mu.Lock()
	delete(s.processes, p)
	s.mu.Unlock()
}

// lose says that the process goes because its sandbox does.
func (p *process) lose(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = why
}

// Stdin implements [runtime.Process].
func (p *process) Stdin() io.WriteCloser { return p.stdin }

// Stdout implements [runtime.Process].
func (p *process) Stdout() io.Reader { return p.stdout }

// Stderr implements [runtime.Process].
func (p *process) Stderr() io.Reader { return p.stderr }

// Signal implements [runtime.Process].
func (p *process) Signal(sig syscall.Signal) error {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, sig)
	}
	return nil
}

// Resize implements [runtime.Process].
func (p *process) Resize(uint16, uint16) error {
	return runtime.Errorf(runtime.ErrUnsupported, "a mock has no terminals")
}

// Wait implements [runtime.Process].
func (p *process) Wait(ctx context.Context) (runtime.Result, error) {
	select {
	case <-p.done:
	case <-ctx.Done():
		return runtime.Result{}, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost != nil {
		return runtime.Result{}, p.lost
	}
	return p.exit, nil
}

// Close implements [runtime.Process].
func (p *process) Close() error {
	if p.cmd == nil {
		return nil
	}
	select {
	case <-p.done:
	default:
		killAll(p.tag)
	}
	p.release()
	return nil
}

func (p *process) release() {
	_ = p.stdin.Close()
	p.stdout.close()
	p.stderr.close()
}
