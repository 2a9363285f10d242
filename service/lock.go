package service

import (
	"context"
	"sync"
)

// locks are mutexes by owner, or another key. The zero value is ready to use.
type locks[K comparable] struct {
	mu   sync.Mutex
	held map[K]chan struct{} // closed when the lock is released; guarded by mu
}

// lock waits for the lock of a key, or for the end of ctx.
func (l *locks[K]) lock(ctx context.Context, key K) (unlock func(), err error) {
	mine := make(chan struct{})
	for {
		l.mu.Lock()
		released, taken := l.held[key]
		if !taken {
			if l.held == nil {
				l.held = map[K]chan struct{}{}
			}
			l.held[key] = mine
		}
		l.mu.Unlock()
		if !taken {
			return func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				delete(l.held, key)
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
