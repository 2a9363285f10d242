package service

import (
	"context"
	"sync"

	"wolffia/service/registry"
)

// locks are mutexes by owner. The zero value has none.
type locks struct {
	mu   sync.Mutex
	held map[registry.Owner]*ownerLock // by whom somebody holds or waits for; guarded by mu
}

type ownerLock struct {
	turn  chan struct{} // holds one token while it is locked
	users int           // who hold it or wait; guarded by locks.mu
}

// lock waits for the owner's lock, or for the end of ctx.
func (l *locks) lock(ctx context.Context, o registry.Owner) (unlock func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[registry.Owner]*ownerLock{}
	}
	lock := l.held[o]
	if lock == nil {
		lock = &ownerLock{turn: make(chan struct{}, 1)}
		l.held[o] = lock
	}
	lock.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if lock.users--; lock.users == 0 {
			delete(l.held, o)
		}
	}
	select {
	case lock.turn <- struct{}{}:
		return func() {
			<-lock.turn
			leave()
		}, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
