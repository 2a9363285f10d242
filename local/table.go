package local

import (
	"io"
	"sync"
)

// A table keeps something open for each of some sandboxes. It is safe for concurrent use.
type table[T io.Closer] struct {
	mu   sync.Mutex
	open map[string]T // by sandbox id; guarded by mu
}

func newTable[T io.Closer]() *table[T] { return &table[T]{open: map[string]T{}} }

// put keeps v for a sandbox, and closes what was kept for it before, such as for a start whose
// shim was killed.
func (t *table[T]) put(id string, v T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if older, ok := t.open[id]; ok {
		_ = older.Close()
	}
	t.open[id] = v
}

// take returns what is kept for a sandbox, if there is anything, and keeps it no more.
func (t *table[T]) take(id string) (v T, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok = t.open[id]
	delete(t.open, id)
	return v, ok
}

// close closes what is kept for a sandbox, if there is anything.
func (t *table[T]) close(id string) {
	if v, ok := t.take(id); ok {
		_ = v.Close()
	}
}

func (t *table[T]) closeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, v := range t.open {
		_ = v.Close()
	}
	clear(t.open)
}
