package stream

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// helloPause is how long the first events of a command wait for its output, or its end, to be sent
// with it: most commands end before that, and each message costs server and client more than such
// a command.
const helloPause = 5 * time.Millisecond

// A Stream is a reply of events. Nothing is sent before the first one, so that a failure before it
// can have a status of its own. It is safe for concurrent use. The caller ends it by Last or Over
// before its handler returns.
type Stream[E Event] struct {
	w       http.ResponseWriter
	limit   time.Duration // for the client to read what is sent
	control *http.ResponseController
	timer   *time.Timer // sends hello, and then signs of life; nil: neither
	life    E

	running, greeted atomic.Bool // the command; hello is set

	mu    sync.Mutex
	hello []E  // what is sent before all else; guarded by mu
	begun bool // guarded by mu
	// of the connection, or that the reply is over; nothing is sent after it; guarded by mu
	err error
}

// errOver is the error of sending after the last event.
var errOver = errors.New("the reply is over")

// New returns a stream to a client that has the limit to read each part.
func New[E Event](w http.ResponseWriter, limit time.Duration) *Stream[E] {
	return &Stream[E]{w: w, limit: limit, control: http.NewResponseController(w)}
}

// NewLive returns a stream that sends signs of life once it has begun or greeted, and calls gone
// if the client does not read them.
func NewLive[E Event](w http.ResponseWriter, limit time.Duration, life E, gone func()) *Stream[E] {
	s := New[E](w, limit)
	s.life = life
	s.timer = time.AfterFunc(time.Hour, func() {
		if s.beat() != nil {
			gone()
		}
	})
	s.timer.Stop()
	return s
}

// Greet sets the events that are sent before all others: with them, or when the command has
// run for helloPause.
func (s *Stream[E]) Greet(hello ...E) {
	s.mu.Lock()
	s.hello = hello
	s.mu.Unlock()
	if s.greeted.Store(true); s.running.Load() {
		s.timer.Reset(helloPause)
	}
}

// Run notes that the command runs. It does not block. A stream without Run sends what Greet has
// set with other events.
func (s *Stream[E]) Run() {
	if s.running.Store(true); s.greeted.Load() {
		s.timer.Reset(helloPause)
	}
}

// Running reports whether Run was called.
func (s *Stream[E]) Running() bool { return s.running.Load() }

// beat sends what Greet has set or, if that was sent, a sign of life.
func (s *Stream[E]) beat() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var life []E
	if s.begun {
		life = []E{s.life}
	}
	err := s.flush(life)
	if err == nil {
		s.timer.Reset(alive)
	}
	return err
}

// Send implements [Sender]. The error says that the client does not read the events, or that the
// stream has ended.
func (s *Stream[E]) Send(events ...E) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flush(events)
}

// flush is Send for a caller that holds mu.
func (s *Stream[E]) flush(events []E) error {
	if err := s.write(events); err != nil {
		return err
	}
	s.err = s.control.Flush()
	return s.err
}

// Last writes the last event. The server sends it with the end of the reply, when the
// handler returns.
func (s *Stream[E]) Last(e E) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.write([]E{e}) // the client has gone
	s.end()
}

// Over ends the stream without an event.
func (s *Stream[E]) Over() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
}

// Leave ends the stream and reports true if nothing was sent: the reply can have another status.
func (s *Stream[E]) Leave() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun {
		return false
	}
	s.end()
	return true
}

// end is Over for a caller that holds mu.
func (s *Stream[E]) end() {
	if s.err == nil {
		s.err = errOver
	}
	if s.timer != nil {
		s.timer.Stop()
	}
}

// write writes events, after those of Greet, to the server's buffer. The caller holds mu.
func (s *Stream[E]) write(events []E) error {
	if !s.begun {
		events = append(s.hello, events...)
	}
	var frames []byte
	now := time.Now()
	for _, e := range events {
		var err error
		if frames, err = e.AppendFrame(frames, 0, now); err != nil {
			return err
		}
	}
	return s.put(frames)
}

// put writes frames to the server's buffer. The caller holds mu.
func (s *Stream[E]) put(frames []byte) error {
	if s.err != nil {
		return s.err
	}
	if !s.begun {
		s.begun = true
		Header(s.w)
		if s.timer != nil {
			s.timer.Reset(alive)
		}
	}
	Patience(s.w, s.limit)
	_, s.err = s.w.Write(frames)
	return s.err
}

// pass sends events that are frames already.
func (s *Stream[E]) pass(frames []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.put(frames); err != nil {
		return err
	}
	s.err = s.control.Flush()
	return s.err
}

// Header begins a reply that is sent in parts.
func Header(w http.ResponseWriter) {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
}
