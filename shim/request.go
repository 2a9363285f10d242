package shim

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/rootfs"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/step"
	"wolffia/runtime"
	"wolffia/wire"
)

// onControl handles a frame on channel 0. An error ends the connection.
func (s *shim) onControl(c *clientConn, f *wire.Frame) error {
	if f.Type != wire.ControlMore && f.Type != wire.Control {
		return fmt.Errorf("%w: frame of type %d on channel 0", wire.ErrProtocol, f.Type)
	}
	if len(c.request)+len(f.Payload()) > wire.MaxControl {
		return fmt.Errorf("%w: a request of more than %d bytes", wire.ErrProtocol, wire.MaxControl)
	}
	c.request = append(c.request, f.Payload()...)
	if f.Type == wire.ControlMore {
		return nil
	}
	var req boot.Request
	err := json.Unmarshal(c.request, &req)
	c.request = nil
	if err != nil {
		return fmt.Errorf("%w: %w", wire.ErrProtocol, err)
	}
	return s.answer(c, &req)
}

// answer handles a request. A goroutine of its own waits for the tree server, so that the
// client's other frames do not; a client may have one such request at a time.
func (s *shim) answer(c *clientConn, req *boot.Request) error {
	step.Reached("asked")
	switch req.Op {
	case boot.OpPause:
		return c.answerLater(func() *boot.Reply { return outcome(s.pause(false)) })
	case boot.OpResume:
		return c.answerLater(func() *boot.Reply { return outcome(s.resume()) })
	case boot.OpDirect, boot.OpDial, boot.OpAcquire, boot.OpTouch:
		if s.wake(); s.pauses.on() {
			return c.reply(outcome(runtime.Errorf(runtime.ErrConflict, "the sandbox is paused")))
		}
	}
	switch req.Op {
	case boot.OpAlive:
		if s.pauses.on() {
			return c.reply(&boot.Reply{})
		}
		return c.answerLater(func() *boot.Reply { return outcome(s.relay.ping(boot.StatsLimit)) })
	case boot.OpStop:
		grace := boot.StopGrace
		if req.GraceMS != nil {
			grace = time.Duration(max(0, *req.GraceMS)) * time.Millisecond
		}
		// first: the sandbox, and the connection with it, may be gone before end returns
		err := c.reply(&boot.Reply{})
		if grace > 0 || !req.Idle || !s.fastStop(c) {
			s.end(statedir.Status{State: runtime.StateStopped}, grace)
		}
		return err
	case boot.OpTouch:
		return c.reply(outcome(s.life.touch()))
	case boot.OpRenew:
		if req.Lifetime == nil {
			return fmt.Errorf("%w: %s without a lifetime", wire.ErrProtocol, boot.OpRenew)
		}
		err := s.life.set(req.Lifetime)
		if err == nil && s.inst.Renew != nil {
			err = s.inst.Renew(req.Lifetime.Deadline(statedir.Now()))
		}
		return c.reply(outcome(err))
	case boot.OpEgress, boot.OpNetwork:
		switch {
		case s.filtered == nil:
			return c.reply(outcome(errNotFiltered))
		case req.Op == boot.OpEgress:
			reply := s.filtered.refused(req.Since)
			reply.Reached = strings.Join(s.filtered.filter.Reached(), " ")
			reply.Sent, reply.Received = s.filtered.filter.Traffic()
			return c.reply(reply)
		}
		return c.answerLater(func() *boot.Reply { return outcome(s.filtered.set(req.Egress, &s.asks)) })
	case boot.OpDial:
		return s.dial(c, req.Port)
	case boot.OpDirect:
		return s.direct(c)
	case boot.OpAcquire, boot.OpRelease:
		if !c.direct {
			return fmt.Errorf("%w: %s without a connection to PID 1", wire.ErrProtocol, req.Op)
		}
		return c.reply(outcome(c.lease(s, req)))
	case boot.OpQuestions:
		return c.answerLater(func() *boot.Reply { return s.asks.waiting(c, req.Since) })
	case boot.OpAnswer, boot.OpClaim:
		switch {
		case req.Answer == nil:
			return fmt.Errorf("%w: %s without an answer", wire.ErrProtocol, req.Op)
		case req.Op == boot.OpAnswer:
			return c.reply(outcome(s.asks.answer(c, req.Answer)))
		}
		q, err := s.asks.claim(c, req.Answer)
		if err != nil {
			return c.reply(outcome(err))
		}
		return c.reply(&boot.Reply{Questions: &[]runtime.Question{*q}})
	case boot.OpAudit:
		return c.answerLater(func() *boot.Reply {
			if s.filtered != nil {
				s.filtered.log.Flush(boot.StatsLimit / 2)
			}
			if s.tree == nil {
				return outcome(nil)
			}
			return replyOf(s.tree.pass(req))
		})
	case boot.OpReview:
		if s.tree == nil || !s.boot.Config.CopyOnWrite || req.Review == nil {
			return c.reply(outcome(runtime.Errorf(runtime.ErrInvalid, "the sandbox works on the host's directory itself: create it with --cow")))
		}
		return c.passOn(func(answer *os.File) (boot.TreeReply, error) {
			if s.copy != nil {
				return s.copy.review(req.Review, answer)
			}
			writeBack(rootfs.TreeDir(s.boot))
			return s.tree.ask(boot.TreeRequest{Op: boot.AskReview, Review: req.Review}, answer, boot.ReviewLimit)
		})
	case boot.OpSave:
		if req.End {
			return c.answerLater(func() *boot.Reply { return outcome(s.hibernate(false)) })
		}
		return c.passOn(func(dir *os.File) (boot.TreeReply, error) { return boot.TreeReply{}, s.save(dir, req) })
	case boot.OpStats, boot.OpDenials, boot.OpRules:
		if s.tree == nil && s.static != nil && req.Op == boot.OpStats {
			return c.reply(&boot.Reply{Stats: &boot.TreeStats{Rules: boot.Fingerprint(s.boot.Config.Permissions), Static: s.static}})
		}
		if s.tree == nil && s.boot.Config.Native() {
			return c.reply(outcome(runtime.Errorf(runtime.ErrConflict, "the sandbox runs with filter %s, whose rules are those of its start: stop it before its rules are changed", s.boot.Config.Filter)))
		}
		if s.tree == nil {
			return c.reply(outcome(runtime.Errorf(runtime.ErrInvalid, "the sandbox has no codebase")))
		}
		if req.Op != boot.OpRules {
			return c.answerLater(func() *boot.Reply { return replyOf(s.tree.pass(req)) })
		}
		return c.passOn(func(rules *os.File) (boot.TreeReply, error) {
			r, err := s.tree.ask(boot.TreeRequest{Op: boot.AskRules, At: req.At}, rules, boot.RulesLimit)
			if err == nil {
				s.prefetcher.schedule(prefetchLate) // the kernel has forgotten the tree
			}
			return r, err
		})
	}
	return c.reply(outcome(runtime.Errorf(runtime.ErrUnsupported, "request %q is not known", req.Op)))
}

// answerLater sends the client what do returns, which may take until the request's limit.
func (c *clientConn) answerLater(do func() *boot.Reply) error {
	c.mu.Lock()
	busy := c.asking
	c.asking = true
	c.mu.Unlock()
	if busy {
		return fmt.Errorf("%w: a request before the answer to the last one", wire.ErrProtocol)
	}
	go func() { // ends within the request's limit
		r := do()
		c.mu.Lock()
		c.asking = false
		c.mu.Unlock()
		if c.reply(r) != nil {
			_ = c.conn.Close() // ends serve
		}
	}()
	return nil
}

// passOn is answerLater for a request with a descriptor, nil if none came. It closes the file
// after ask.
func (c *clientConn) passOn(ask func(*os.File) (boot.TreeReply, error)) error {
	file := c.conn.Taken()
	return c.answerLater(func() *boot.Reply {
		defer file.Close()
		return replyOf(ask(file))
	})
}

// maxReplies bounds the replies that a client has not read.
const maxReplies = 16

// reply queues a reply for the client. An error ends the connection.
func (c *clientConn) reply(r *boot.Reply) error {
	f, err := replyFrame(r)
	if err != nil {
		return err
	}
	if c.replies.Add(1) > maxReplies {
		f.Release()
		return fmt.Errorf("%w: requests whose answers are not read", wire.ErrProtocol)
	}
	c.out.Put(f)
	return nil
}

// replyFrame returns the frame with a reply, which the caller releases.
func replyFrame(r *boot.Reply) (wire.Frame, error) {
	// a shim's first reply: to encode it would make the tables of types, a tenth of a millisecond
	// before the first command
	b := []byte("{}")
	if *r != (boot.Reply{}) {
		var err error
		if b, err = json.Marshal(r); err != nil {
			return wire.Frame{}, err
		}
	}
	if len(b) > wire.MaxPayload {
		return wire.Frame{}, fmt.Errorf("answer of %d bytes", len(b))
	}
	f := wire.NewFrame(wire.Reply, 0)
	f.SetLen(copy(f.Room(), b))
	return f, nil
}
