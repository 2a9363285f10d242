package code

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"wolffia/runtime"
)

// Kernels are the contexts of sandboxes. They live in this process: when it ends so do the kernels, and
// when a sandbox stops so do its own. The zero value is not usable. It is safe for concurrent use.
type Kernels struct {
	rt  runtime.RuntimeWithSession
	mu  sync.Mutex
	all map[string][]*Context // by id of the sandbox, oldest first; guarded by mu
}

// New returns kernels in sandboxes of a runtime. The caller closes them.
func New(rt runtime.RuntimeWithSession) *Kernels {
	return &Kernels{rt: rt, all: map[string][]*Context{}}
}

// MaxContexts is how many contexts a sandbox can have.
const MaxContexts = 32

// A Box names a sandbox.
type Box struct {
	ID   string
	Idle time.Duration // its idle time-out: a kernel that runs no cell for so long ends; 0: none does
}

// DefaultID returns the id of the context of a language that requests use which name none. It exists
// without being created.
func DefaultID(language string) string { return "default-" + language }

// Create starts a kernel in a directory of a sandbox; empty: where the sandbox's commands start.
func (k *Kernels) Create(ctx context.Context, box Box, language, cwd string) (*Context, error) {
	language, err := Language(language)
	if err != nil {
		return nil, err
	}
	c, err := k.add(box, strings.ToLower(rand.Text()), language, cwd)
	if err != nil {
		return nil, err
	}
	if err := c.enter(ctx); err != nil {
		return nil, errors.Join(err, k.Remove(box.ID, c.ID))
	}
	_, err = c.start(ctx)
	c.leave()
	if err != nil {
		_ = k.Remove(box.ID, c.ID)
		return nil, err
	}
	return c, nil
}

// Default returns the context of a language that requests use which name none. cwd is as in Create, if
// it has not been used yet.
func (k *Kernels) Default(box Box, language, cwd string) (*Context, error) {
	language, err := Language(language)
	if err != nil {
		return nil, err
	}
	if c, err := k.Get(box.ID, DefaultID(language)); err == nil {
		return c, nil
	}
	return k.add(box, DefaultID(language), language, cwd)
}

// add adds a context, whose kernel starts with its first cell.
func (k *Kernels) add(box Box, id, language, cwd string) (*Context, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.all[box.ID] {
		if c.ID == id {
			return c, nil
		}
	}
	if len(k.all[box.ID]) >= MaxContexts {
		return nil, runtime.Errorf(runtime.ErrConflict,
			"sandbox %s has %d contexts, which is the most: remove one", box.ID, MaxContexts)
	}
	c := &Context{
		ID: id, Language: language, Cwd: cwd, of: k, sandbox: box.ID, idle: box.Idle,
		turn: make(chan struct{}, 1),
	}
	if c.idle > 0 {
		c.timer = time.AfterFunc(c.idle, c.rest)
	}
	k.all[box.ID] = append(k.all[box.ID], c)
	return c, nil
}

// noContext is the error for a context that does not exist.
func noContext(id string) error { return runtime.Errorf(runtime.ErrNotFound, "no context %.100q", id) }

// Get returns a context. An unknown one is [runtime.ErrNotFound].
func (k *Kernels) Get(sandboxID, id string) (*Context, error) {
	for _, c := range k.List(sandboxID) {
		if c.ID == id {
			return c, nil
		}
	}
	return nil, noContext(id)
}

// List returns the contexts of a sandbox, oldest first.
func (k *Kernels) List(sandboxID string) []*Context {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.all[sandboxID])
}

// Remove ends a context and its kernel. An unknown one is [runtime.ErrNotFound].
func (k *Kernels) Remove(sandboxID, id string) error {
	c, err := k.Get(sandboxID, id)
	if err != nil {
		return err
	}
	k.mu.Lock()
	k.all[sandboxID] = slices.DeleteFunc(k.all[sandboxID], func(x *Context) bool { return x == c })
	if len(k.all[sandboxID]) == 0 {
		delete(k.all, sandboxID)
	}
	k.mu.Unlock()
	c.close(true)
	return nil
}

// Forget drops the contexts of a sandbox that was stopped or destroyed.
func (k *Kernels) Forget(sandboxID string) {
	k.mu.Lock()
	gone := k.all[sandboxID]
	delete(k.all, sandboxID)
	k.mu.Unlock()
	for _, c := range gone {
		c.close(true)
	}
}

// Close ends all kernels.
func (k *Kernels) Close() {
	k.mu.Lock()
	all := k.all
	k.all = map[string][]*Context{}
	k.mu.Unlock()
	for _, contexts := range all {
		for _, c := range contexts {
			c.close(true)
		}
	}
}

// askLimit is how long it may take to learn whether a sandbox runs.
const askLimit = 10 * time.Second

// look drops the contexts of a sandbox in which a kernel has ended, if that has ended too.
func (k *Kernels) look(sandboxID string) {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	b, err := k.rt.Get(ctx, sandboxID)
	if errors.Is(err, runtime.ErrNotFound) || err == nil && !b.State.Runs() {
		k.Forget(sandboxID)
	}
}
