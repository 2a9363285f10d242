package guest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"wolffia/wire"
)

// A place is where the frames of a process go. nil is nowhere.
type place struct {
	w       *wire.Writer
	channel uint32
	free    func() // frees the channel
}

func (l *link) place(channel uint32) *place {
	return &place{l.w, channel, func() { l.set(channel, nil) }}
}

func (to *place) send(t wire.Type, payload []byte) {
	if to != nil {
		_ = to.w.Send(t, to.channel, payload) // a broken stream to the host ends the guest elsewhere
	}
}

// place returns where the frames of p go now.
func (p *process) place() *place {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.to
}

// tell sends a frame.
func (p *process) tell(t wire.Type, payload []byte) {
	p.sending.Lock()
	defer p.sending.Unlock()
	p.place().send(t, payload)
}

// conclude sends the last frame of p, when the channel is free.
func (p *process) conclude(t wire.Type, v any) {
	p.sending.Lock()
	defer p.sending.Unlock()
	p.mu.Lock()
	to := p.to
	p.over = true
	p.mu.Unlock()
	if to != nil {
		to.free()
		_ = to.w.SendJSON(t, to.channel, v)
	}
}

// move has all streams of p go to another place. p.sending and p.mu are held.
func (p *process) move(to *place) {
	p.to = to
	if p.in != nil {
		p.in.move(to)
	}
	for _, o := range p.outs {
		o.move(to)
	}
}

// detach has p go on without a link, and reports whether it does: its output is dropped. It waits
// for the frame that is being sent.
func (p *process) detach() bool {
	p.sending.Lock()
	defer p.sending.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.label == "" || p.tree.Root == 0 || p.dropped || p.over {
		return false
	}
	p.move(nil)
	return true
}

// detach ends the channel of a client that has gone: its process is killed, unless it outlives
// that.
func (l *link) detach(channel uint32, p *process) {
	if !p.detach() {
		p.Kill()
		return
	}
	l.set(channel, nil)
	_ = l.w.SendJSON(wire.Exit, channel, wire.ExitStatus{})
}

// attach gives p, which has no link, one: from now on its frames go to that place.
func (p *process) attach(to *place, pid uint32) error {
	p.sending.Lock() // of what goes nowhere
	defer p.sending.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.over || p.dropped:
		return notKept(pid)
	case p.to != nil:
		return fmt.Errorf("process %d: its caller is there", pid)
	}
	to.send(wire.Started, binary.LittleEndian.AppendUint32(nil, pid))
	p.move(to)
	return nil
}

func notKept(pid uint32) error {
	return fmt.Errorf("process %d: no such process outlives its caller", pid)
}

// keptProcesses are the running processes that outlive their links, by process id. The zero value
// is ready to use, and it is safe for concurrent use.
type keptProcesses struct {
	mu   sync.Mutex
	all  map[uint32]*process
	size int // of all labels, in bytes
}

// add adds a process that has started; beyond the bound it ends with its link.
func (k *keptProcesses) add(pid uint32, p *process) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.size += len(p.label); k.size > wire.MaxLabels {
		k.size -= len(p.label)
		p.mu.Lock()
		p.label = ""
		alone := p.to == nil
		p.mu.Unlock()
		if alone {
			go p.drop() // ends when the tree is dead
		}
		return
	}
	if k.all == nil {
		k.all = map[uint32]*process{}
	}
	k.all[pid] = p
}

func (k *keptProcesses) remove(pid uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.all[pid]; p != nil {
		k.size -= len(p.label)
		delete(k.all, pid)
	}
}

func (k *keptProcesses) find(pid uint32) *process {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all[pid]
}

// list returns the processes that no link has.
func (k *keptProcesses) list() []wire.KeptProcess {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := []wire.KeptProcess{}
	for pid, p := range k.all {
		if p.place() == nil {
			all = append(all, wire.KeptProcess{PID: pid, Label: p.label})
		}
	}
	return all
}

// attach serves a request about kept processes.
func (l *link) attach(channel, pid uint32) error {
	if pid == 0 {
		text, err := json.Marshal(l.kept.list()) // at most some of wire.Window
		if err != nil {
			return err
		}
		for piece := range slices.Chunk(text, wire.MaxPayload) {
			if err := l.w.Send(wire.Stdout, channel, piece); err != nil {
				return err
			}
		}
		return l.w.SendJSON(wire.Exit, channel, wire.ExitStatus{})
	}
	p, err := l.kept.find(pid), notKept(pid)
	if p != nil {
		l.set(channel, p)
		err = p.attach(l.place(channel), pid)
	}
	if err != nil {
		l.set(channel, nil)
		return l.w.SendJSON(wire.Failed, channel, wire.Failure{Code: 125, Class: wire.ClassNotFound, Message: err.Error()})
	}
	return nil
}
