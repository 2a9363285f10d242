package container

import (
	"context"
	"maps"
	"sync"
	"time"
)

// An Event is a change of a container.
type Event struct {
	Action     string
	ID         string // whole
	Image      string
	Attributes map[string]string
	Time       time.Time
}

// feeds are the clients that get events. The zero value is ready to use.
type feeds struct {
	mu  sync.Mutex
	all map[chan *Event]bool
}

// maxEvents is how many events a client may be behind; it loses what comes later.
const maxEvents = 1000

// tell sends an event to the clients.
func (f *feeds) tell(action string, c *Container, more map[string]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.all) == 0 {
		return
	}
	e := &Event{Action: action, ID: c.ID(), Image: c.Config.Image, Time: time.Now(), Attributes: map[string]string{}}
	maps.Copy(e.Attributes, c.Config.Labels)
	e.Attributes["image"], e.Attributes["name"] = c.Config.Image, c.Name()
	maps.Copy(e.Attributes, more)
	for to := range f.all {
		select {
		case to <- e:
		default:
		}
	}
}

// Events calls do for each event of this process's calls until ctx ends, or do returns an error.
func (e *Engine) Events(ctx context.Context, do func(*Event) error) error {
	from := make(chan *Event, maxEvents)
	e.events.mu.Lock()
	if e.events.all == nil {
		e.events.all = map[chan *Event]bool{}
	}
	e.events.all[from] = true
	e.events.mu.Unlock()
	defer func() {
		e.events.mu.Lock()
		defer e.events.mu.Unlock()
		delete(e.events.all, from)
	}()
	for {
		select {
		case ev := <-from:
			if err := do(ev); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}
