package filecall

import (
	"errors"
	"path/filepath"
	"slices"

	"wolffia/internal/dirwatch"
)

// maxEvents is how many events a frame has: with all that is said of each it is not larger than
// MaxEvents.
const maxEvents = 256

// watch watches until out fails, or the process is ended.
func watch(out *Sender, q *Request, flush func() error) error {
	w, err := dirwatch.New(q.Path, q.Depth > 1, q.Remote)
	if err != nil {
		return out.JSON(&Reply{Err: errorOf(err)})
	}
	defer w.Close()
	if err := errors.Join(out.JSON(&Reply{}), flush()); err != nil {
		return err
	}
	for {
		seen, lost := w.Next()
		events := make([]Event, 0, len(seen)+1)
		for _, e := range seen {
			events = append(events, q.event(e))
		}
		if lost != nil {
			events = append(events, Event{Op: Overflow})
		}
		for some := range slices.Chunk(events, maxEvents) {
			if err := errors.Join(out.JSON(some), flush()); err != nil {
				return err
			}
		}
		if lost != nil {
			return nil
		}
	}
}

// event returns an event as the host gets it.
func (q *Request) event(of dirwatch.Event) Event {
	e := Event{Name: of.Name, Op: of.Op}
	if !q.Full || e.Op == dirwatch.Removed || e.Op == dirwatch.Renamed {
		return e
	}
	var r Reply
	if r.describe(&Request{Path: filepath.Join(q.Path, e.Name), Prefix: q.Prefix}) == nil { // else it has gone
		e.Info = &r.Infos[0]
	}
	return e
}
