package service

import (
	"context"
	"sync"

	"wolffia/service/registry"
)

// ownerLocks are mutexes by owner. The zero value is ready to use.
type ownerLocks struct {
	mu    sync.Mutex
	locks map[registry.Owner]*ownerLock // those with users; guarded by mu
}

type ownerLock struct {
	held  chan struct{} // has one element while the lock is held
	users int           // that hold it or wait for it; guarded by ownerLocks.mu
}

// lock waits for the owner's lock, or for the end of ctx.
func (l *ownerLocks) lock(ctx context.Context, o registry.Owner) (unlock func(), err error) {
	l.mu.Lock()
	if l.locks == nil {
		l.locks = map[registry.Owner]*ownerLock{}
	}
	lock := l.locks[o]
	if lock == nil {
		lock = &ownerLock{held: make(chan struct{}, 1)}
		l.locks[o] = lock
	}
	lock.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if lock.users--; lock.users == 0 {
			delete(l.locks, o)
		}
	}
	select {
	case lock.held <- struct{}{}:
		return func() {
			<-lock.held
			leave()
		}, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
