package e2b

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"

	"wolffia/ops/stream"
	"wolffia/runtime"
	"wolffia/service/gate"
)

// A fault is an error with its status of HTTP, which E2B repeats in the body.
type fault struct {
	status  int
	message string
}

func (f *fault) Error() string { return f.message }

// invalid returns the error for a wrong request.
func invalid(format string, args ...any) error {
	return &fault{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// unsupported returns the error for what there is not here, with the reason.
func unsupported(format string, args ...any) error {
	return &fault{http.StatusNotImplemented, fmt.Sprintf(format, args...)}
}

// without returns a call that is not there, with the reason.
func without(why string) call {
	return func(*Handler, http.ResponseWriter, *http.Request) error { return unsupported("%s", why) }
}

// faultOf returns the reply to an error; ok is false for one without a class, which is a bug: the
// reply says nothing of it.
func faultOf(err error) (f *fault, ok bool) {
	var large *http.MaxBytesError
	if errors.As(err, &f) {
		return f, true
	}
	if refused, is := errors.AsType[*gate.Refusal](err); is {
		message := refused.Message
		if refused.Status == http.StatusUnauthorized {
			message += ": it is the SDK's E2B_API_KEY"
		}
		return &fault{refused.Status, message}, true
	}
	switch s, known := gate.StatusOf(err); {
	case known && s.Is == runtime.ErrUnavailable:
		return &fault{http.StatusInternalServerError, err.Error()}, true // a client repeats a 503 three times
	case known:
		return &fault{s.HTTP, err.Error()}, true
	case errors.As(err, &large):
		return &fault{http.StatusRequestEntityTooLarge, fmt.Sprintf("the request is larger than %d bytes", large.Limit)}, true
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &fault{http.StatusRequestTimeout, "the request's body has not arrived in time"}, true
	}
	return &fault{http.StatusInternalServerError, "internal error: see the service's log for this request id"}, false
}

// An errorReply is the reply to a request that failed. The SDKs read the status from the body.
type errorReply struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// fail answers with an error.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	f, ok := faultOf(err)
	gate.Hint(w.Header(), err)
	if !ok {
		h.opts.Bug(w, r, err)
	}
	h.reply(w, f.status, errorReply{f.status, f.message})
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
		return invalid("the request's body: %v", err)
	}
	return nil
}
