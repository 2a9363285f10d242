package conns

import (
	"io"
	"sync"
)

// A Table keeps something open for each of some sandboxes. It is safe for concurrent use.
type Table[T io.Closer] struct {
	mu   sync.Mutex
	open map[string]T // by sandbox id; guarded by mu
}

func NewTable[T io.Closer]() *Table[T] { return &Table[T]{open: map[string]T{}} }

// Put keeps v for a sandbox, and closes what was kept for it before, such as for a start whose
// shim was killed.
func (t *Table[T]) Put(id string, v T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if older, ok := t.open[id]; ok {
		_ = older.Close()
	}
	t.open[id] = v
}

// take returns what is kept for a sandbox, if there is anything, and keeps it no more.
func (t *Table[T]) take(id string) (v T, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok = t.open[id]
	delete(t.open, id)
	return v, ok
}

// Close closes what is kept for a sandbox, if there is anything.
func (t *Table[T]) Close(id string) {
	if v, ok := t.take(id); ok {
		_ = v.Close()
	}
}

func (t *Table[T]) CloseAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, v := range t.open {
		_ = v.Close()
	}
	clear(t.open)
}
