package conns

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/rawsock"
	"wolffia/runtime"
	"wolffia/wire"
	"wolffia/wire/client"
)

// openLimit is how long a shim may take to pass a connection.
const openLimit = 10 * time.Second

// open requests a connection to PID 1 from a sandbox's shim, so that frames do not pass the shim.
// c owns the connection to the shim from then on.
func (c *Conn) open(ctx context.Context, rec *statedir.Record, shim *rawsock.Socket) error {
	stop := context.AfterFunc(ctx, func() { _ = shim.Close() }) // ends AskFile
	file, err := AskFile(shim, &boot.Request{Op: boot.OpDirect})
	if !stop() {
		_ = file.Close() // nil is fine
		return runtime.Errorf(runtime.ErrUnavailable, "sandbox %s: the shim does not answer", rec.ID())
	}
	if errors.Is(err, runtime.ErrUnsupported) {
		if err := c.share(shim); err != nil {
			return errors.Join(err, shim.Close())
		}
		c.conn, c.sock = client.New(shim), shim
		return nil
	}
	if err == nil {
		return c.join(shim, file)
	}
	_ = shim.Close()
	return Lost(ctx, rec, err)
}

// join makes c own a connection to the shim, and one to PID 1.
func (c *Conn) join(shim *rawsock.Socket, direct *os.File) (err error) {
	if c.sock, err = rawsock.FileSocket(direct); err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, errors.Join(err, shim.Close()))
	}
	if err := errors.Join(c.share(shim), c.share(c.sock)); err != nil {
		return errors.Join(err, shim.Close(), c.sock.Close())
	}
	c.shim = client.New(shim)
	c.conn = client.NewLeased(c.sock, newLease(c.shim))
	return nil
}

// AskFile sends a request that is answered with a file, which the caller closes. It is the
// connection's first.
func AskFile(sock *rawsock.Socket, req *boot.Request) (*os.File, error) {
	request, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	if err := wire.NewWriter(sock).WriteControl(request); err != nil {
		return nil, fmt.Errorf("%w: %w", client.ErrClosed, err)
	}
	room := wire.NewFrame(wire.Reply, 0)
	defer room.Release()
	room.SetLen(wire.MaxPayload)
	b, file, err := sock.ReceiveFile(room.Bytes())
	if err != nil || len(b) == 0 {
		return nil, errors.Join(client.ErrClosed, err)
	}
	var reply boot.Reply
	r := wire.NewReader(bytes.NewReader(b))
	defer r.Release()
	f, err := r.Next()
	if err == nil {
		err = wire.Decode(&f, &reply)
		f.Release()
	}
	switch {
	case err != nil:
	case reply.Errno > 0:
		err = syscall.Errno(reply.Errno)
	case reply.Err() != nil:
		err = reply.Err()
	case file == nil:
		err = errors.New("the shim sent no socket")
	}
	if err != nil {
		_ = file.Close() // nil is fine
		return nil, err
	}
	return file, nil
}

// releaseAfter is how long no process runs before the lease is released. A message for each
// command would cost more than the command's own.
const releaseAfter = 250 * time.Millisecond

// leaseLimit is how long the shim may take to answer.
const leaseLimit = 10 * time.Second

// A lease keeps a sandbox in use for a connection to PID 1, whose frames the shim does not see. A
// command after a release waits for the shim's answer: either the command counts as a use of the
// sandbox, or the sandbox has expired.
type lease struct {
	shim *client.Conn

	mu    sync.Mutex
	open  int       // processes; guarded by mu
	last  time.Time // when open became 0; guarded by mu
	held  bool      // the shim has granted the lease; guarded by mu
	armed bool      // timer will call releaseIdle; guarded by mu
	timer *time.Timer
}

func newLease(shim *client.Conn) *lease {
	l := &lease{shim: shim, held: true, armed: true, last: time.Now()}
	l.mu.Lock() // releaseIdle uses timer
	defer l.mu.Unlock()
	l.timer = time.AfterFunc(releaseAfter, l.releaseIdle)
	return l
}

// Acquire implements [client.Lease].
func (l *lease) Acquire() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.held {
		if err := l.ask(&boot.Request{Op: boot.OpAcquire}); err != nil {
			return err
		}
		l.held = true
	}
	l.open++
	return nil
}

// Release implements [client.Lease].
func (l *lease) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open--; l.open > 0 {
		return
	}
	l.last = time.Now()
	if !l.armed {
		l.arm(releaseAfter)
	}
}

// arm has releaseIdle called after a time. l.mu is held.
func (l *lease) arm(after time.Duration) {
	l.armed = true
	l.timer.Reset(after)
}

// releaseIdle releases the lease if no process runs. If one does, its Release sets the timer
// again.
func (l *lease) releaseIdle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = false
	idle := time.Since(l.last)
	switch {
	case l.open > 0:
	case idle < releaseAfter:
		l.arm(releaseAfter - idle)
	case l.ask(&boot.Request{Op: boot.OpRelease, IdleMS: idle.Milliseconds()}) == nil:
		l.held = false
	}
}

// ask sends a request, and waits for its answer. l.mu is held.
func (l *lease) ask(req *boot.Request) error {
	ctx, cancel := context.WithTimeout(context.Background(), leaseLimit)
	defer cancel()
	var answer boot.Reply
	if err := l.shim.Control(ctx, req, &answer); err != nil {
		return err
	}
	return answer.Err()
}

// Close implements [client.Lease]. The end of a sandbox on request ends the connection to PID 1
// too, possibly before the shim's answer is read.
func (l *lease) Close() error {
	l.timer.Stop()
	l.shim.CloseAnswered()
	return nil
}
