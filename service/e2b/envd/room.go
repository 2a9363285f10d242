package envd

import (
	"sync"
)

// A room has what is under way in a sandbox for clients.
type room struct {
	id string

	adopting sync.Mutex // held during adopt

	mu        sync.Mutex
	users     int                 // requests, processes and watchers; guarded by rooms.mu
	broken    chan struct{}       // closed when the sandbox is left; guarded by mu
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

// leave breaks what clients have in a sandbox.
func (s *rooms) leave(id string) {
	s.mu.Lock()
	r := s.all[id]
	s.mu.Unlock()
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.broken)
	r.broken = make(chan struct{})
	for _, w := range r.watchers {
		w.end()
	}
}

// left is closed when the sandbox is left.
func (r *room) left() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.broken
}
