package console

import (
	"net/http"
	"time"

	"wolffia/ops/stream"
)

// aliveEach is how long a stream of events may have none.
const aliveEach = 15 * time.Second

// events sends all that the caller may know, and then what changes, until the client leaves.
func (h *Handler) events(c *call) (any, error) {
	client, err := h.hub.join(c.caller)
	if err != nil {
		return nil, err
	}
	defer h.hub.leave(client)
	h.hub.look()
	list, all, err := h.list(c.Context(), c.caller)
	if err != nil {
		return nil, err
	}
	h.hub.waitAsked(c.Context(), all)
	control := http.NewResponseController(c.w)
	stream.Header(c.w)
	send := func(f []byte) bool {
		stream.Patience(c.w, writeLimit)
		_, err := c.w.Write(f)
		return err == nil && control.Flush() == nil
	}
	alive := time.NewTicker(aliveEach)
	defer alive.Stop()
	ok := send(frame("hello", map[string]any{"sandboxes": list, "questions": h.hub.questionsOf(c.caller)}))
	for ok {
		select {
		case f := <-client.frames:
			ok = send(f)
		case <-alive.C:
			ok = send(frame("alive", nothing{}))
		case <-client.slow:
			ok = false
		case <-c.Context().Done():
			ok = false
		case <-h.ctx.Done():
			ok = false
		}
	}
	return nil, errAnswered
}
