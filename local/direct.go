package local

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

// openLimit is how long a shim may take to hand over a connection.
const openLimit = 10 * time.Second

// open has the shim of a sandbox hand over a connection to PID 1: then frames do not pass the shim. It takes over the
// connection to that.
func (c *connection) open(ctx context.Context, box *statedir.Box, shim *rawsock.Socket) error {
	stop := context.AfterFunc(ctx, func() { _ = shim.Close() }) // ends askFile
	file, err := askFile(shim, &boot.Request{Op: boot.OpDirect})
	if !stop() {
		_ = file.Close() // nil is fine
		return runtime.Errorf(runtime.ErrUnavailable, "sandbox %s: the shim does not answer", box.ID())
	}
	if errors.Is(err, runtime.ErrUnsupported) {
		c.conn, c.sock = client.New(shim), shim
		return nil
	}
	if err == nil {
		return c.join(shim, file)
	}
	_ = shim.Close()
	return lost(ctx, box, err)
}

// join takes over a connection to the shim, and one to PID 1.
func (c *connection) join(shim *rawsock.Socket, direct *os.File) (err error) {
	if c.sock, err = rawsock.FileSocket(direct); err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, errors.Join(err, shim.Close()))
	}
	c.shim = client.New(shim)
	c.conn = client.NewUsed(c.sock, newUse(c.shim))
	return nil
}

// askFile sends a request that is answered with a file, which the caller closes. It is the connection's first.
func askFile(sock *rawsock.Socket, req *boot.Request) (*os.File, error) {
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
		err = errors.New("the shim handed over no socket")
	}
	if err != nil {
		_ = file.Close() // nil is fine
		return nil, err
	}
	return file, nil
}

// restAfter is how long nothing runs before the shim is told so: a message for each command would cost more than
// the command's own.
const restAfter = 250 * time.Millisecond

// tellLimit is how long the shim may take to answer.
const tellLimit = 10 * time.Second

// A use tells the shim when a connection to PID 1 is used. Before a command that follows a rest it waits for the
// shim's answer: either the command counts as a use of the sandbox, or the sandbox has expired.
type use struct {
	shim *client.Conn

	mu    sync.Mutex
	open  int       // processes; guarded by mu
	last  time.Time // when open became 0; guarded by mu
	holds bool      // the shim knows of the use; guarded by mu
	armed bool      // timer is to call rest; guarded by mu
	timer *time.Timer
}

func newUse(shim *client.Conn) *use {
	u := &use{shim: shim, holds: true, armed: true, last: time.Now()}
	u.mu.Lock() // rest uses timer
	defer u.mu.Unlock()
	u.timer = time.AfterFunc(restAfter, u.rest)
	return u
}

// Begin implements [client.Use].
func (u *use) Begin() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.holds {
		if err := u.tell(&boot.Request{Op: boot.OpHold}); err != nil {
			return err
		}
		u.holds = true
	}
	u.open++
	return nil
}

// End implements [client.Use].
func (u *use) End() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.open--; u.open > 0 {
		return
	}
	u.last = time.Now()
	if !u.armed {
		u.arm(restAfter)
	}
}

// arm has rest called after a time. u.mu is held.
func (u *use) arm(after time.Duration) {
	u.armed = true
	u.timer.Reset(after)
}

// rest tells the shim that nothing runs. If something does, its End comes back to that.
func (u *use) rest() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.armed = false
	idle := time.Since(u.last)
	switch {
	case u.open > 0:
	case idle < restAfter:
		u.arm(restAfter - idle)
	case u.tell(&boot.Request{Op: boot.OpRest, IdleMS: idle.Milliseconds()}) == nil:
		u.holds = false
	}
}

// tell sends a request, and waits for its answer. u.mu is held.
func (u *use) tell(req *boot.Request) error {
	ctx, cancel := context.WithTimeout(context.Background(), tellLimit)
	defer cancel()
	var answer boot.Reply
	if err := u.shim.Control(ctx, req, &answer); err != nil {
		return err
	}
	return answer.Err()
}

// Close implements [client.Use]. A sandbox that the shim was asked to end ends the connection to PID 1 too: the answer may
// still be to be read.
func (u *use) Close() error {
	u.timer.Stop()
	u.shim.CloseAnswered()
	return nil
}
