package service

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"time"

	"wolffia/runtime"
)

// CreateTerminal starts a session for a terminal and returns its name. Its shell starts in cwd
// when a client first attaches; program, unless empty, is what that shell evaluates, and then ends.
func (i *Inside) CreateTerminal(ctx context.Context, cwd, program string) (string, error) {
	name := "p" + strings.ToLower(rand.Text())
	s, err := i.service.rt.CreateSession(ctx, i.box.ID, &runtime.SessionConfig{Name: name, Cwd: i.absolute(cwd), Program: program})
	if err != nil {
		return "", err
	}
	i.noteSession(s.Name, true)
	return s.Name, nil
}

// Session returns a session, and with it the state of its terminal.
func (i *Inside) Session(ctx context.Context, name string) (*runtime.Session, error) {
	return i.service.rt.GetSession(ctx, runtime.SessionIn(i.box.ID, name))
}

// Sessions returns the sessions, by name.
func (i *Inside) Sessions(ctx context.Context) ([]*runtime.Session, error) {
	return i.service.rt.ListSessions(ctx, i.box.ID)
}

// View connects to the terminal of a session beside the clients that it has. The caller closes the Terminal.
func (i *Inside) View(ctx context.Context, name string, req *runtime.AttachRequest) (runtime.Terminal, error) {
	return i.service.rt.AttachSession(ctx, runtime.SessionIn(i.box.ID, name), req)
}

// A terminalOf names a session's terminal.
type terminalOf struct{ sandboxID, session string }

// leaveLimit is how long a client that attaches waits for another one, which may be leaving.
const leaveLimit = time.Second

// goneLimit is how long the sandbox may take to note that a client has detached.
const goneLimit = 5 * time.Second

// AttachTerminal connects to the terminal of a session, whose output it shows again from an offset
// on; see [runtime.SessionManager].AttachSession. It has one client at a time: another one is
// [runtime.ErrConflict] or, with takeover, is detached. The caller closes the Terminal.
func (i *Inside) AttachTerminal(ctx context.Context, name string, offset uint64, takeover bool) (runtime.Terminal, error) {
	f, key := i.service, terminalOf{i.box.ID, name}
	unlock, err := f.attaching.lock(ctx, key)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if !takeover {
		f.awaitLeaving(ctx, key)
		s, err := i.Session(ctx, name)
		if err != nil {
			return nil, err
		}
		if s.Terminal != nil && s.Terminal.Viewers > 0 {
			return nil, runtime.Errorf(runtime.ErrConflict, "session %q: another client is attached to its terminal: take it over", name)
		}
	}
	t, err := f.rt.AttachSession(ctx, runtime.SessionIn(i.box.ID, name), &runtime.AttachRequest{Offset: offset, Takeover: takeover})
	if err != nil {
		return nil, err
	}
	a := &attachment{Terminal: t, service: f, key: key, left: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attached[key] = a
	return a, nil
}

// awaitLeaving waits until the client of a terminal has left, for as long as it may take one that
// is leaving.
func (s *Service) awaitLeaving(ctx context.Context, key terminalOf) {
	s.mu.Lock()
	other := s.attached[key]
	s.mu.Unlock()
	if other == nil {
		return
	}
	timer := time.NewTimer(leaveLimit)
	defer timer.Stop()
	select {
	case <-other.left:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// An attachment is a client's connection to a terminal.
type attachment struct {
	runtime.Terminal
	service *Service
	key     terminalOf
	once    sync.Once
	left    chan struct{} // closed when the sandbox knows that the client is gone
}

// Close implements [runtime.Process].
func (a *attachment) Close() (err error) {
	a.once.Do(func() {
		err = a.Terminal.Close()
		ctx, cancel := context.WithTimeout(context.Background(), goneLimit)
		defer cancel()
		_, _ = a.Wait(ctx)
		a.service.mu.Lock()
		defer a.service.mu.Unlock()
		if a.service.attached[a.key] == a { // else another client has taken over
			delete(a.service.attached, a.key)
		}
		close(a.left)
	})
	return err
}
