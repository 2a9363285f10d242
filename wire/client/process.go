package client

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"syscall"

	"wolffia/wire"
)

// A Request asks for a process.
type Request struct {
	wire.StartRequest
	// OnStdout and OnStderr, if set, are called with output as it comes, by the goroutine that
	// reads the connection: they must not block and not keep the slice. Without them the caller
	// reads the output from the Process, and the process waits until the caller does.
	OnStdout, OnStderr func([]byte)
	// OnStarted, if set, is called by the same goroutine when the guest reports that the process
	// runs, with its process id there. For a command in a session the guest reports that if the command has a time-out.
	OnStarted func(pid int)
	// OnQueued, if set, is called by the same goroutine when the guest reports that a command in a
	// session waits for others. OnStarted is then called when the command has its turn.
	OnQueued func()

	socket *socket // with Network
}

// A StartError is the error of a guest that could not start the program.
type StartError struct {
	Code    int // what a shell would exit with: 125, 126, 127
	Message string
	Class   string // for sessions: wire.ClassInvalid and so on; else empty
}

func (e *StartError) Error() string { return e.Message }

// A Process runs in the sandbox. It is safe for concurrent use, but each
// stream is for one goroutine.
type Process struct {
	conn    *Conn
	channel uint32
	window  int           // the credit that each stream starts with, in bytes
	socket  *socket       // what its answers mean to a socket; nil: it is a process
	started func(pid int) // or nil
	queued  func()        // or nil
	stdin   *input
	stdout  *output
	stderr  *output
	done    chan struct{} // closed when status and err are set

	seen map[wire.Type]bool // frames that come once at most; the reading goroutine's own

	mu     sync.Mutex
	over   bool   // done is closed, or about to be; guarded by mu
	ended  func() // called with over; or nil; guarded by mu
	status wire.ExitStatus
	err    error
}

func newProcess(c *Conn, channel uint32, req *Request) *Process {
	p := &Process{conn: c, channel: channel, started: req.OnStarted, queued: req.OnQueued, window: wire.Window, done: make(chan struct{})}
	if req.Network != nil {
		p.window, p.socket = wire.NetWindow, req.socket
	}
	p.stdin = newInput(p)
	p.stdout = newOutput(p, wire.Stdout, req.OnStdout)
	p.stderr = newOutput(p, wire.Stderr, req.OnStderr)
	return p
}

// handle processes one frame, which it owns afterwards.
func (p *Process) handle(f wire.Frame) error {
	switch f.Type {
	case wire.Stdout:
		return p.stdout.put(f)
	case wire.Stderr:
		return p.stderr.put(f)
	}
	defer f.Release()
	switch f.Type {
	case wire.Queued, wire.Started, wire.StdoutEOF, wire.StderrEOF:
		if p.seen[f.Type] {
			return fmt.Errorf("%w: a second frame of type %d", wire.ErrProtocol, f.Type)
		}
		if p.seen == nil {
			p.seen = map[wire.Type]bool{}
		}
		p.seen[f.Type] = true
	}
	switch f.Type {
	case wire.StdoutEOF:
		p.stdout.end(io.EOF)
	case wire.StderrEOF:
		p.stderr.end(io.EOF)
	case wire.Started:
		if p.socket != nil {
			return p.socket.start(p, &f)
		}
		if len(f.Payload()) != 4 {
			return fmt.Errorf("%w: started frame of %d bytes", wire.ErrProtocol, len(f.Payload()))
		}
		if p.started != nil {
			p.started(int(int32(binary.LittleEndian.Uint32(f.Payload()))))
		}
	case wire.Queued:
		if p.queued != nil {
			p.queued()
		}
	case wire.Credit:
		stream, n, err := wire.ParseCredit(f.Payload())
		if err != nil {
			return err
		}
		if stream != wire.Stdin || n == 0 || !p.stdin.grant(n) {
			return fmt.Errorf("%w: credit for input that was not sent", wire.ErrProtocol)
		}
	case wire.Exit:
		var status wire.ExitStatus
		if err := wire.Decode(&f, &status); err != nil {
			p.fail(err)
			return err
		}
		p.conclude(status, nil, io.EOF)
	case wire.Failed:
		var failure wire.Failure
		if err := wire.Decode(&f, &failure); err != nil {
			p.fail(err)
			return err
		}
		if p.socket != nil {
			err := socketError(&failure)
			p.conclude(wire.ExitStatus{}, err, err)
			return nil
		}
		p.conclude(wire.ExitStatus{}, &StartError{Code: failure.Code, Message: failure.Message, Class: failure.Class}, io.EOF)
	default:
		return fmt.Errorf("%w: frame of type %d on a channel", wire.ErrProtocol, f.Type)
	}
	return nil
}

// fail ends the process's life on this side, with an error for all streams.
func (p *Process) fail(err error) { p.conclude(wire.ExitStatus{}, err, err) }

// conclude sets how the process has ended, and the error that follows its output. Only the first
// call has an effect; first reports whether this call was it.
func (p *Process) conclude(status wire.ExitStatus, err, behind error) (first bool) {
	p.mu.Lock()
	over := p.over
	if !over {
		p.over, p.status, p.err = true, status, err
	}
	ended := p.ended
	p.mu.Unlock()
	if over {
		return false
	}
	p.stdin.end()
	p.stdout.end(behind)
	p.stderr.end(behind)
	close(p.done)
	if ended != nil {
		ended()
	}
	return true
}

// Abandon ends the process on this side, as if it had ended with status, unless it has ended. Its
// output ends with the bytes that have come; further bytes are dropped. Then Abandon asks the
// other end to kill the process, for which it may have to wait.
func (p *Process) Abandon(status wire.ExitStatus) {
	p.stdout.drop()
	p.stderr.drop()
	if p.conclude(status, nil, io.EOF) {
		_ = p.conn.w.Send(wire.Kill, p.channel, nil)
	}
}

// Backlog returns how many bytes of output have come in all, and whether some of them
// have not been read yet.
func (p *Process) Backlog() (total int64, unread bool) {
	for _, o := range []*output{p.stdout, p.stderr} {
		o.mu.Lock()
		total += o.total
		unread = unread || len(o.queue) > 0
		o.mu.Unlock()
	}
	return total, unread
}

// Stdin is the process's standard input; Close ends it. Writes wait until the process reads; after
// its end they return io.ErrClosedPipe. If the request did not ask for input, written bytes are
// lost.
func (p *Process) Stdin() io.WriteCloser { return p.stdin }

// Stdout is the process's standard output, io.EOF after its end. What is not
// read holds the process up.
func (p *Process) Stdout() io.Reader { return p.stdout }

// Stderr is the process's standard error, as Stdout.
func (p *Process) Stderr() io.Reader { return p.stderr }

// Signal sends sig to the process's group, and to the foreground group of its terminal. It returns
// nil if the process has ended.
func (p *Process) Signal(sig syscall.Signal) error {
	return p.send(wire.Signal, []byte{byte(sig)})
}

// Resize sets the size of the process's terminal.
func (p *Process) Resize(rows, cols uint16) error {
	return p.send(wire.Resize, wire.AppendSize(nil, rows, cols))
}

// Kill kills the process and all that it started. Output that was not read
// yet is lost. It does not wait: see Wait.
func (p *Process) Kill() error { return p.send(wire.Kill, nil) }

func (p *Process) send(t wire.Type, payload []byte) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	return p.conn.broken(p.conn.w.Send(t, p.channel, payload))
}

// Done is closed when the process has ended and its output is complete.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the process's end. Its error is a *StartError if it could
// not be started, ctx's if that ended first (the process runs on), or the
// reason for which the connection was lost.
func (p *Process) Wait(ctx context.Context) (wire.ExitStatus, error) {
	select {
	case <-p.done:
	default:
		select {
		case <-p.done:
		case <-ctx.Done():
			return wire.ExitStatus{}, ctx.Err()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status, p.err
}
