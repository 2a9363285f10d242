package service

import (
	"context"
	"sync"

	"wolffia/service/registry"
)

// ownerLocks are mutexes by owner. The zero value is ready to use.
type ownerLocks struct {
	mu   sync.Mutex
	held map[registry.Owner]chan struct{} // closed when the lock is released; guarded by mu
}

// lock waits for the owner's lock, or for the end of ctx.
func (l *ownerLocks) lock(ctx context.Context, o registry.Owner) (unlock func(), err error) {
	mine := make(chan struct{})
	for {
		l.mu.Lock()
		released, taken := l.held[o]
		if !taken {
			if l.held == nil {
				l.held = map[registry.Owner]chan struct{}{}
			}
			l.held[o] = mine
		}
		l.mu.Unlock()
		if !taken {
			return func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				delete(l.held, o)
				close(mine)
			}, nil
		}
		select {
		case <-released:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
