package shim

import (
	"encoding/json"
	"fmt"
	"time"

	"wolffia/internal/boot"
	"wolffia/internal/statedir"
	"wolffia/internal/step"
	"wolffia/runtime"
	"wolffia/wire"
)

// onControl takes a frame on channel 0. An error ends the connection.
func (s *shim) onControl(p *peer, f *wire.Frame) error {
	switch f.Type {
	case wire.ControlMore, wire.Control:
	default:
		return fmt.Errorf("%w: frame of type %d on channel 0", wire.ErrProtocol, f.Type)
	}
	if len(p.request)+len(f.Payload()) > wire.MaxControl {
		return fmt.Errorf("%w: a request of more than %d bytes", wire.ErrProtocol, wire.MaxControl)
	}
	p.request = append(p.request, f.Payload()...)
	if f.Type == wire.ControlMore {
		return nil
	}
	var req boot.Request
	err := json.Unmarshal(p.request, &req)
	p.request = nil
	if err != nil {
		return fmt.Errorf("%w: %w", wire.ErrProtocol, err)
	}
	return s.answer(p, &req)
}

// answer does what a client asks for. What the tree server is asked is waited
// for elsewhere, so that nothing that the client does meanwhile waits for it;
// one question at a time.
func (s *shim) answer(p *peer, req *boot.Request) error {
	step.Reached("asked")
	switch req.Op {
	case boot.OpNothing:
		return p.reply(&boot.Reply{})
	case boot.OpStop:
		grace := boot.StopGrace
		if req.GraceMS != nil {
			grace = time.Duration(max(0, *req.GraceMS)) * time.Millisecond
		}
		s.end(statedir.Status{State: runtime.StateStopped}, grace)
		return p.reply(&boot.Reply{})
	case boot.OpTouch:
		return p.reply(replyOf(boot.TreeReply{}, s.life.touch()))
	case boot.OpRenew:
		if req.Lifetime == nil {
			return fmt.Errorf("%w: %s without a lifetime", wire.ErrProtocol, boot.OpRenew)
		}
		return p.reply(replyOf(boot.TreeReply{}, s.life.set(req.Lifetime)))
	case boot.OpStats, boot.OpAudit, boot.OpRules:
		if s.tree == nil {
			return p.reply(replyOf(boot.TreeReply{}, runtime.Errorf(runtime.ErrInvalid, "the sandbox has no codebase")))
		}
		p.mu.Lock()
		busy := p.asking
		p.asking = true
		p.mu.Unlock()
		if busy {
			return fmt.Errorf("%w: a request before the answer to the last one", wire.ErrProtocol)
		}
		go func() { // ends within the request's limit
			r := replyOf(s.askTree(req))
			p.mu.Lock()
			p.asking = false
			p.mu.Unlock()
			if p.reply(r) != nil {
				_ = p.conn.Close() // serve notices and cleans up
			}
		}()
		return nil
	}
	return p.reply(&boot.Reply{Error: fmt.Sprintf("request %q is not known", req.Op), Class: runtime.ErrUnsupported.Error()})
}

// askTree passes a request on to the tree server.
func (s *shim) askTree(req *boot.Request) (boot.TreeReply, error) {
	if req.Op != boot.OpRules {
		return s.tree.ask(req.Op, nil, boot.StatsLimit)
	}
	rules, err := boot.SealedFile(req.Rules)
	if err != nil {
		return boot.TreeReply{}, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	defer rules.Close()
	return s.tree.ask(boot.AskRules, rules, boot.RulesLimit)
}

// maxReplies is how many answers may wait for a client to read them.
const maxReplies = 16

// reply queues the answer for the client. An error ends the connection.
func (p *peer) reply(r *boot.Reply) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(b) > wire.MaxPayload {
		return fmt.Errorf("answer of %d bytes", len(b))
	}
	p.mu.Lock()
	p.replies++
	waiting := p.replies
	p.mu.Unlock()
	if waiting > maxReplies {
		return fmt.Errorf("%w: requests whose answers are not read", wire.ErrProtocol)
	}
	out := wire.NewFrame(wire.Reply, 0)
	out.SetLen(copy(out.Room(), b))
	p.queue(out)
	return nil
}
