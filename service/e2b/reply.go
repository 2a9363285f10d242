package e2b

import (
	"encoding/json"
	"net/http"

	"wolffia/ops/stream"
	"wolffia/service/e2b/fault"
	"wolffia/service/gate"
)

// without returns a call that is not there, with the reason.
func without(why string) call {
	return func(*Handler, http.ResponseWriter, *http.Request) error { return fault.Unsupported("%s", why) }
}

// fail answers with an error.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	f, ok := fault.Of(err)
	gate.Hint(w.Header(), err)
	if !ok {
		h.opts.Bug(w, r, err)
	}
	h.reply(w, f.Status, f.Reply())
}

// reply answers with JSON, without a body if v is nil. That the client does not read it is no
// error.
func (h *Handler) reply(w http.ResponseWriter, status int, v any) {
	if v != nil {
		h.opts.JSON(w, status, v)
		return
	}
	stream.Patience(w, h.opts.WriteLimit)
	w.WriteHeader(status)
}

// maxBody is the largest body of JSON, in bytes.
const maxBody = 1 << 20

// decode decodes the body of a request, one JSON value, into to. Unknown fields are ignored, as
// newer SDKs may send some. An empty body leaves to as it is.
func (h *Handler) decode(w http.ResponseWriter, r *http.Request, to any) error {
	body, err := h.opts.Read(w, r, maxBody)
	if err != nil || len(body) == 0 {
		return err
	}
	if err := json.Unmarshal(body, to); err != nil {
		return fault.Invalid("the request's body: %v", err)
	}
	return nil
}
