package registry

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"wolffia/runtime"
)

// ErrClosed is the error of a Registry that was closed.
var ErrClosed = errors.New("closed")

// A ConflictError says that an owner already has a sandbox, registered or
// reserved. It is of class [runtime.ErrConflict].
type ConflictError struct{ SandboxID string }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("sandbox %s already exists for this owner", e.SandboxID)
}

// Unwrap returns the class.
func (e *ConflictError) Unwrap() error { return runtime.ErrConflict }

// A Registry is an open index; the zero value is closed. It is safe for concurrent use. Its methods return
// errors of class [runtime.ErrUnavailable] if the file cannot be written, and
// [ErrClosed] after Close.
type Registry struct {
	dir    string
	unlock func() // twice is fine

	mu    sync.Mutex            // held while the file is written
	index atomic.Pointer[index] // what the file holds, never modified; nil after Close
	save  func([]byte) error    // writes the file

	queue   sync.Mutex
	waiting []*pending // in the order of the calls; guarded by queue
}

// A pending change is one that waits until the file is written.
type pending struct {
	do   func(ix *index) error // changes nothing if it fails
	err  error
	done bool // guarded by Registry.mu, as err is
}

// Reserve gives a sandbox that is being created or destroyed to its owner:
// FindByOwner does not return it, and the owner cannot have another. An owner that
// has another is a [*ConflictError], an id of another owner [runtime.ErrExists]. Of
// any number of concurrent calls for one owner one succeeds.
func (r *Registry) Reserve(m Metadata) error { return r.claim(record{m, true}) }

// Register gives a sandbox to its owner, whether or not it was reserved, and
// replaces what was recorded of it. Errors are as for Reserve.
func (r *Registry) Register(m Metadata) error { return r.claim(record{m, false}) }

func (r *Registry) claim(m record) error {
	if err := m.Validate(); err != nil {
		return err
	}
	return r.change(func(ix *index) error {
		if id, has := ix.owners[m.Owner]; has && id != m.SandboxID {
			return &ConflictError{id}
		}
		if old, has := ix.sandboxes[m.SandboxID]; has && old.Owner != m.Owner {
			return runtime.Errorf(runtime.ErrExists, "sandbox %s already exists", m.SandboxID)
		}
		ix.put(m)
		return nil
	})
}

// Unregister removes a sandbox, registered or reserved. An unknown one is no
// error.
func (r *Registry) Unregister(sandboxID string) error {
	return r.change(func(ix *index) error {
		ix.remove(sandboxID)
		return nil
	})
}

// Reconcile makes the index say what was found: all sandboxes that exist, of every
// owner. It adds those that are missing and removes those that are gone. Of two
// sandboxes of one owner it keeps the registered one, else the older. Reserved ones
// stay as they are. All of it is one change of the file.
func (r *Registry) Reconcile(found []Metadata) (*Changes, error) {
	var done *Changes
	err := r.change(func(ix *index) error {
		done = ix.reconcile(found)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// GetMetadata returns a registered sandbox; [runtime.ErrNotFound] if it is unknown
// or reserved.
func (r *Registry) GetMetadata(sandboxID string) (Metadata, error) {
	return r.find(func(*index) string { return sandboxID })
}

// FindByOwner returns the owner's registered sandbox; [runtime.ErrNotFound] if the
// owner has none.
func (r *Registry) FindByOwner(o Owner) (Metadata, error) {
	return r.find(func(ix *index) string { return ix.owners[o] })
}

func (r *Registry) find(id func(*index) string) (Metadata, error) {
	ix, err := r.current()
	if err != nil {
		return Metadata{}, err
	}
	m, has := ix.sandboxes[id(ix)]
	if !has || m.Reserved {
		return Metadata{}, runtime.Errorf(runtime.ErrNotFound, "no such sandbox is registered")
	}
	return m.Metadata, nil
}

// List returns the registered sandboxes, by id.
func (r *Registry) List() ([]Metadata, error) { return r.list(false) }

// Reserved returns the reserved sandboxes, by id: those that are being created or
// destroyed, or that a killed service left half created or half destroyed.
func (r *Registry) Reserved() ([]Metadata, error) { return r.list(true) }

func (r *Registry) list(reserved bool) (all []Metadata, err error) {
	ix, err := r.current()
	if err != nil {
		return nil, err
	}
	for _, m := range ix.sandboxes {
		if m.Reserved == reserved {
			all = append(all, m.Metadata)
		}
	}
	slices.SortFunc(all, func(a, b Metadata) int { return cmp.Compare(a.SandboxID, b.SandboxID) })
	return all, nil
}

// current returns the index, which must not be modified.
func (r *Registry) current() (*index, error) {
	ix := r.index.Load()
	if ix == nil {
		return nil, runtime.WithClass(runtime.ErrUnavailable, fmt.Errorf("registry %s: %w", r.dir, ErrClosed))
	}
	return ix, nil
}

// change applies do to a copy of the index, writes the copy, and makes it the
// current index. If do fails, or the file cannot be written, nothing is changed.
// Changes that come while the file is written share the next write.
func (r *Registry) change(do func(ix *index) error) error {
	mine := &pending{do: do}
	r.queue.Lock()
	r.waiting = append(r.waiting, mine)
	r.queue.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !mine.done {
		r.queue.Lock()
		batch := r.waiting
		r.waiting = nil
		r.queue.Unlock()
		err := r.commit(batch)
		for _, p := range batch {
			p.done = true
			if err != nil { // also for one that failed because of another that is not saved
				p.err = err
			}
		}
	}
	return mine.err
}

// commit does changes, one after the other, and writes the file. The error is that of all of them.
// r.mu is held.
func (r *Registry) commit(batch []*pending) error {
	old, err := r.current()
	if err != nil {
		return err
	}
	next := old.clone()
	for _, p := range batch {
		p.err = p.do(next)
	}
	if next.equal(old) {
		return nil
	}
	data, err := encode(next)
	if err == nil {
		err = r.save(data)
	}
	if err != nil {
		return unavailable(err)
	}
	r.index.Store(next)
	return nil
}

// Close releases the state directory to the next service. Twice is fine.
func (r *Registry) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.index.Store(nil)
	if r.unlock != nil {
		r.unlock()
	}
	return nil
}

func unavailable(err error) error {
	return runtime.Errorf(runtime.ErrUnavailable, "registry: %w", err)
}
