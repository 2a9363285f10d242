package shim

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	goruntime "runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/runtime"
)

// A treeConn sends requests to the tree server, once that serves. It is safe for
// concurrent use; requests do not wait for each other's answers.
type treeConn struct {
	control *os.File
	over    chan struct{} // closed when the tree server has ended
	changed chan struct{} // holds a token when the host has changed the tree

	mu   sync.Mutex
	last uint64 // the number of the last request; guarded by mu
	// a process walks through the tree, and walk was not called; guarded by mu
	walked bool
	// called then, in a goroutine of its own; nil: later; guarded by mu
	walk    func()
	waiting map[uint64]chan boot.TreeReply // with room for the answer; guarded by mu
	// asks a person, in a goroutine of its own, until ctx ends; nil: each question is refused
	question func(ctx context.Context, id uint64, q *runtime.Question)
	// ends the questions of the tree server that wait; guarded by mu
	asked map[uint64]context.CancelFunc
}

func newTreeConn(control *os.File) *treeConn {
	return &treeConn{
		control: control, over: make(chan struct{}), changed: make(chan struct{}, 1),
		waiting: map[uint64]chan boot.TreeReply{}, asked: map[uint64]context.CancelFunc{},
	}
}

// errTreeGone answers requests when the tree server has ended.
var errTreeGone = runtime.Errorf(runtime.ErrUnavailable, "the tree server has ended: see wolffia logs")

// run hands out answers until the tree server has ended. It drops those that come after
// their request's limit.
func (c *treeConn) run() {
	defer close(c.over)
	defer c.endQuestions()
	for buf := make([]byte, boot.MaxPacket); ; {
		packet, file, err := boot.ReceivePacket(c.control, buf)
		_ = file.Close() // no answer has one
		if len(packet) == 0 {
			return // the tree server has ended, or the socket is broken
		}
		var reply boot.TreeReply
		if err != nil || json.Unmarshal(packet, &reply) != nil {
			continue // its request ends at its limit
		}
		if reply.HostChanged {
			select {
			case c.changed <- struct{}{}:
			default:
			}
		}
		if reply.Asked > 0 {
			c.onQuestion(reply.Asked, reply.Question)
		}
		c.mu.Lock()
		c.walked = c.walked || reply.SequentialLookup
		c.tellWalk()
		if answer := c.waiting[reply.ID]; answer != nil {
			answer <- reply
			delete(c.waiting, reply.ID)
		}
		c.mu.Unlock()
		goruntime.Gosched() // the goroutine that waits for the answer runs next in this thread
	}
}

// maxAsked bounds the questions of the tree server that wait at once, which holds fewer requests.
const maxAsked = 256

// onQuestion asks a question of the tree server's; without one it ends the question id.
func (c *treeConn) onQuestion(id uint64, q *runtime.Question) {
	c.mu.Lock()
	end, many := c.asked[id], len(c.asked) >= maxAsked
	delete(c.asked, id)
	c.mu.Unlock()
	switch {
	case end != nil:
		end()
	case q == nil:
	case many || c.question == nil:
		c.verdict(&boot.TreeRequest{Op: boot.AskVerdict, Asked: id})
	default:
		ctx, end := context.WithCancel(context.Background())
		c.mu.Lock()
		c.asked[id] = end
		c.mu.Unlock()
		go func() { // ends with the answer, or the question
			defer end()
			c.question(ctx, id, q)
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.asked, id)
		}()
	}
}

// endQuestions ends all questions.
func (c *treeConn) endQuestions() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, end := range c.asked {
		end()
	}
}

// verdict sends the answer to a question. If the tree server does not read, its own limit refuses.
func (c *treeConn) verdict(req *boot.TreeRequest) { _ = boot.SendPacket(c.control, req, nil) }

// onWalk has f called, in a goroutine of its own, when a process walks through the tree.
func (c *treeConn) onWalk(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.walk = f
	c.tellWalk()
}

// tellWalk calls c.walk if it is to be called. c.mu is held.
func (c *treeConn) tellWalk() {
	if c.walked && c.walk != nil {
		c.walked = false
		go c.walk()
	}
}

// hangUp makes the tree server end after its last writes.
func (c *treeConn) hangUp() {
	if raw, err := c.control.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) })
	}
}

// ask sends a request, with a descriptor if file is not nil, and waits for the answer up
// to limit. The error is the tree server's own, or of class ErrUnavailable. It is
// errNoAnswer if the tree server may have done what was requested.
func (c *treeConn) ask(req boot.TreeRequest, file *os.File, limit time.Duration) (boot.TreeReply, error) {
	asked, err := c.send(req, file)
	if err != nil {
		return boot.TreeReply{}, err
	}
	return c.await(asked, limit)
}

// pass sends a client's request, and returns the answer.
func (c *treeConn) pass(req *boot.Request) (boot.TreeReply, error) {
	return c.ask(boot.TreeRequest{Op: req.Op, Since: req.Since}, nil, boot.StatsLimit)
}

// A treeQuestion is a request that was sent.
type treeQuestion struct {
	id     uint64
	answer chan boot.TreeReply
}

// send is the first part of ask. The caller calls await.
func (c *treeConn) send(req boot.TreeRequest, file *os.File) (*treeQuestion, error) {
	answer := make(chan boot.TreeReply, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	req.ID = c.last
	c.waiting[req.ID] = answer
	err := boot.SendPacket(c.control, req, file)
	if err == nil {
		return &treeQuestion{req.ID, answer}, nil
	}
	delete(c.waiting, req.ID)
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return nil, errTreeGone
	}
	return nil, runtime.Errorf(runtime.ErrUnavailable, "send a request to the tree server: %w", err)
}

// await is the second part of ask.
func (c *treeConn) await(asked *treeQuestion, limit time.Duration) (boot.TreeReply, error) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, asked.id)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var reply boot.TreeReply
	select {
	case reply = <-asked.answer:
	case <-timer.C:
		return boot.TreeReply{}, runtime.Errorf(runtime.ErrUnavailable, "%w in %v", errNoAnswer, limit)
	case <-c.over:
		select {
		case reply = <-asked.answer: // its last
		default:
			return boot.TreeReply{}, errTreeGone
		}
	}
	return reply, reply.Err()
}

// errNoAnswer says that the tree server has not answered a request.
var errNoAnswer = errors.New("the tree server does not answer")

// writeBack has what programs have changed through memory mappings sent to the tree server, if the
// tree is mounted in this process's mount namespace.
func writeBack(tree string) {
	fd, err := unix.Open(tree, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_ = unix.Syncfs(fd)
}

// outcome returns the reply to a client that says only whether its request has failed.
func outcome(err error) *boot.Reply { return replyOf(boot.TreeReply{}, err) }

// replyOf returns the reply to a client for an answer of the tree server.
func replyOf(r boot.TreeReply, err error) *boot.Reply {
	return &boot.Reply{Failure: boot.Failed(err), Stats: r.Stats, Denied: r.Denied, Unknown: errors.Is(err, errNoAnswer) || errors.Is(err, errTreeGone)}
}
