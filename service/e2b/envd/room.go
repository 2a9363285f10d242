package envd

import (
	"context"
	"sync"
)

// A room has what is under way in a sandbox for clients.
type room struct {
	id string

	adopting sync.Mutex // held during adopt

	mu        sync.Mutex
	users     int                 // requests, processes and watchers; guarded by rooms.mu
	broken    chan struct{}       // closed when the sandbox is left; guarded by mu
	leaving   chan struct{}       // closed when it is known whether it is left; nil: it is not being left; guarded by mu
	processes map[number]*running // guarded by mu
	watchers  map[string]*watcher // guarded by mu
}

// rooms are the rooms in use, by the id of the sandbox. The zero value is ready to use.
type rooms struct {
	mu  sync.Mutex
	all map[string]*room
}

// enter returns the room of a sandbox. The caller exits it.
func (s *rooms) enter(id string) *room {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.all[id]
	if r == nil {
		r = &room{id: id, broken: make(chan struct{})}
		r.processes, r.watchers = map[number]*running{}, map[string]*watcher{}
		if s.all == nil {
			s.all = map[string]*room{}
		}
		s.all[id] = r
	}
	r.users++
	return r
}

// exit ends one use of a room.
func (s *rooms) exit(r *room) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.users--; r.users == 0 {
		delete(s.all, r.id)
	}
}

// leave does what ends a sandbox, or its processes, and then breaks what clients have in it.
func (s *rooms) leave(id string, do func() error) error {
	r := s.enter(id)
	defer s.exit(r)
	leaving := make(chan struct{})
	defer close(leaving)
	r.mu.Lock()
	r.leaving = leaving
	r.mu.Unlock()
	err := do()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leaving = nil; err != nil {
		return err
	}
	close(r.broken)
	r.broken = make(chan struct{})
	for _, w := range r.watchers {
		w.end()
	}
	return nil
}

// decided waits while it is not known whether the sandbox is left.
func (r *room) decided(ctx context.Context) {
	r.mu.Lock()
	leaving := r.leaving
	r.mu.Unlock()
	if leaving == nil {
		return
	}
	select {
	case <-leaving:
	case <-ctx.Done():
	}
}

// left is closed when the sandbox is left.
func (r *room) left() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.broken
}
