package stream

import "time"

// An Event is a part of a streamed reply.
type Event interface {
	// AppendFrame appends what the client gets to b. n is the event's number, from 1 on; 0: events
	// have none.
	AppendFrame(b []byte, n int64, at time.Time) ([]byte, error)
}

// A Sender takes events.
type Sender[E Event] interface {
	// Send sends events to the client. After an error it sends nothing more.
	Send(events ...E) error
}

// alive is the time between two signs of life.
const alive = 3 * time.Second

// Follow sends hello, and what run sends, with a sign of life each three seconds, and then last,
// which run returns. If the client does not take one of its events, Follow calls stop, which ends
// run.
func Follow[E Event](to Sender[E], hello []E, life E, run func() (last E), stop func()) {
	if to.Send(hello...) != nil {
		stop()
		return
	}
	ended := make(chan E, 1)
	go func() { ended <- run() }() // ends with run
	ticker := time.NewTicker(alive)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if to.Send(life) != nil {
				stop()
				<-ended
				return
			}
		case last := <-ended:
			_ = to.Send(last) // the client has gone
			return
		}
	}
}
