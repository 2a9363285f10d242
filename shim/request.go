package shim

import (
	"encoding/json"
	"fmt"
	"time"

	"wolffia/internal/statedir"
	"wolffia/internal/step"
	"wolffia/runtime"
	"wolffia/wire"
)

// What a client can ask of the shim itself.
const (
	opNothing = "nothing"
	opStop    = "stop"
	opTouch   = "touch"
	opRenew   = "renew"
	opStats   = askStats // passed on to the tree server
	opAudit   = askAudit // passed on to the tree server
	opRules   = askRules // passed on to the tree server
)

// A request is what a client asks of the shim itself.
type request struct {
	Op      string          `json:"op"`
	GraceMS *int64          `json:"graceMs,omitempty"` // for stop: between TERM and KILL; nil is stopGrace
	Rules   json.RawMessage `json:"rules,omitempty"`   // for rules: a list, which the shim does not read

	Lifetime *statedir.Lifetime `json:"lifetime,omitempty"` // for renew; the idle timeout stays
}

// A reply answers a request.
type reply struct {
	Error string     `json:"error,omitempty"`
	Class string     `json:"class,omitempty"` // of Error
	Stats *TreeStats `json:"stats,omitempty"`
	// Unknown says that nobody knows whether the request took effect.
	Unknown bool `json:"unknown,omitempty"`
}

const (
	// statsLimit is how long the tree server may take to tell what it does, or to
	// have its audit log written.
	statsLimit = 2 * time.Second
	// rulesLimit is how long it may take until other rules bind: the kernel has
	// to forget what the old ones allowed.
	rulesLimit = 30 * time.Second
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
	var req request
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
func (s *shim) answer(p *peer, req *request) error {
	step.Reached("asked")
	switch req.Op {
	case opNothing:
		return p.reply(&reply{})
	case opStop:
		grace := stopGrace
		if req.GraceMS != nil {
			grace = time.Duration(max(0, *req.GraceMS)) * time.Millisecond
		}
		s.end(statedir.Status{State: runtime.StateStopped}, grace)
		return p.reply(&reply{})
	case opTouch:
		return p.reply(replyOf(treeReply{}, s.life.touch()))
	case opRenew:
		if req.Lifetime == nil {
			return fmt.Errorf("%w: %s without a lifetime", wire.ErrProtocol, opRenew)
		}
		return p.reply(replyOf(treeReply{}, s.life.set(req.Lifetime)))
	case opStats, opAudit, opRules:
		if s.tree == nil {
			return p.reply(replyOf(treeReply{}, runtime.Errorf(runtime.ErrInvalid, "the sandbox has no codebase")))
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
	return p.reply(&reply{Error: fmt.Sprintf("request %q is not known", req.Op), Class: runtime.ErrUnsupported.Error()})
}

// askTree passes a request on to the tree server.
func (s *shim) askTree(req *request) (treeReply, error) {
	if req.Op != opRules {
		return s.tree.ask(req.Op, nil, statsLimit)
	}
	rules, err := sealedFile(req.Rules)
	if err != nil {
		return treeReply{}, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	defer rules.Close()
	return s.tree.ask(askRules, rules, rulesLimit)
}

// maxReplies is how many answers may wait for a client to read them.
const maxReplies = 16

// reply queues the answer for the client. An error ends the connection.
func (p *peer) reply(r *reply) error {
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
