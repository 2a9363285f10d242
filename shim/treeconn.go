package shim

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/boot"
	"wolffia/runtime"
)

// A treeConn is the shim's end of the socket that it shares with the tree
// server, once that serves. It is safe for concurrent use; nobody waits for
// anybody else's answer.
type treeConn struct {
	control *os.File
	over    chan struct{} // closed when run has ended

	mu      sync.Mutex
	last    uint64                         // the number of the last request; guarded by mu
	waiting map[uint64]chan boot.TreeReply // with room for the answer; guarded by mu
	gone    bool                           // guarded by mu
}

func newTreeConn(control *os.File) *treeConn {
	// Not from 0 on: an answer to a shim that was killed must not be taken for ours.
	return &treeConn{control: control, over: make(chan struct{}), last: rand.Uint64(), waiting: map[uint64]chan boot.TreeReply{}}
}

// errTreeGone is what a question gets when the tree server has ended.
var errTreeGone = runtime.Errorf(runtime.ErrUnavailable, "the tree server has ended: see wolffia logs")

// run hands out answers until the tree server is gone. An answer that nobody
// waits for any more is dropped.
func (c *treeConn) run() {
	defer close(c.over)
	for buf := make([]byte, boot.MaxPacket); ; {
		packet, file, err := boot.ReceivePacket(c.control, buf)
		if file != nil {
			_ = file.Close() // nobody has asked for one
		}
		if len(packet) == 0 {
			break // gone, or the socket is broken, which comes to the same
		}
		var reply boot.TreeReply
		if err != nil || json.Unmarshal(packet, &reply) != nil {
			continue // whoever has asked is told when time is up
		}
		c.mu.Lock()
		if to := c.waiting[reply.ID]; to != nil {
			to <- reply
			delete(c.waiting, reply.ID)
		}
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	for _, to := range c.waiting {
		close(to)
	}
	c.waiting = nil
}

// hangUp makes the tree server end, in good order.
func (c *treeConn) hangUp() {
	if raw, err := c.control.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) })
	}
}

// ask sends a request, with a descriptor if file is one, and waits for the
// answer up to limit. An error is of class ErrUnavailable, or the tree server's
// own; that a request was sent, and not answered, matches errNoAnswer.
func (c *treeConn) ask(op string, file *os.File, limit time.Duration) (boot.TreeReply, error) {
	answer := make(chan boot.TreeReply, 1)
	c.mu.Lock()
	if c.gone {
		c.mu.Unlock()
		return boot.TreeReply{}, errTreeGone
	}
	c.last++
	id := c.last
	c.waiting[id] = answer
	err := boot.SendPacket(c.control, boot.TreeRequest{ID: id, Op: op}, file)
	c.mu.Unlock()
	if err != nil {
		c.forget(id)
		if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
			return boot.TreeReply{}, errTreeGone
		}
		return boot.TreeReply{}, runtime.Errorf(runtime.ErrUnavailable, "ask the tree server: %w", err)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case reply, ok := <-answer:
		if !ok {
			return boot.TreeReply{}, errTreeGone
		}
		if reply.Error != "" {
			return boot.TreeReply{}, boot.Report{Error: reply.Error, Class: reply.Class}.Err()
		}
		return reply, nil
	case <-timer.C:
		c.forget(id)
		return boot.TreeReply{}, runtime.Errorf(runtime.ErrUnavailable, "%w in %v", errNoAnswer, limit)
	}
}

// errNoAnswer says that nobody knows whether the tree server did what it was
// asked for.
var errNoAnswer = errors.New("the tree server does not answer")

func (c *treeConn) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}

// replyOf is what a client is told of the tree server's answer.
func replyOf(r boot.TreeReply, err error) *boot.Reply {
	if err == nil {
		return &boot.Reply{Stats: r.Stats}
	}
	why := boot.Failed(err)
	return &boot.Reply{Error: why.Error, Class: why.Class, Unknown: errors.Is(err, errNoAnswer) || errors.Is(err, errTreeGone)}
}
