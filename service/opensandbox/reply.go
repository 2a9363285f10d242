package opensandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"time"

	"wolffia/ops/stream"
	"wolffia/service/gate"
)

// A fault is an error with what the reply says.
type fault struct {
	status  int
	code    string
	message string
}

func (f *fault) Error() string { return f.message }

// unsupported returns the error for what has no meaning here, with the reason.
func unsupported(format string, args ...any) error {
	return &fault{http.StatusNotImplemented, "NOT_SUPPORTED", fmt.Sprintf(format, args...)}
}

// invalid returns the error for a wrong request.
func invalid(format string, args ...any) error {
	return &fault{http.StatusBadRequest, "INVALID_PARAMETER", fmt.Sprintf(format, args...)}
}

// faultOf returns the reply to an error; ok is false for one without a class, which is a
// bug: the reply says nothing of it.
func faultOf(err error) (f *fault, ok bool) {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &f):
		return f, true
	case errors.As(err, &large):
		return &fault{http.StatusRequestEntityTooLarge, "TOO_LARGE", fmt.Sprintf("the request is larger than %d bytes", large.Limit)}, true
	}
	if s, ok := gate.StatusOf(err); ok {
		return &fault{s.HTTP, s.OpenSandbox, err.Error()}, true
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &fault{http.StatusRequestTimeout, "TOO_SLOW", err.Error()}, true
	}
	return &fault{http.StatusInternalServerError, "INTERNAL", "internal error: see the service's log for this request id"}, false
}

// An errorReply is the reply to a request that failed.
type errorReply struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// replies answer requests, within the limits of the options.
type replies struct{ opts Options }

// fail answers with an error.
func (p replies) fail(w http.ResponseWriter, r *http.Request, err error) {
	f, ok := faultOf(err)
	gate.Hint(w.Header(), err)
	if !ok {
		p.opts.Bug(w, r, err)
	}
	p.opts.JSON(w, f.status, errorReply{f.code, f.message})
}

// empty answers without a body. Clients parse a body of unknown length.
func (p replies) empty(w http.ResponseWriter, status int) {
	p.patience(w)
	if status != http.StatusNoContent {
		w.Header().Set("Content-Length", "0")
	}
	w.WriteHeader(status)
}

// patience gives the client the limit anew to read the reply.
func (p replies) patience(w http.ResponseWriter) { stream.Patience(w, p.opts.WriteLimit) }

// patient returns w as a reply that gives the client the limit anew for each part.
func (p replies) patient(w http.ResponseWriter) http.ResponseWriter {
	return &stream.Patient{ResponseWriter: w, Limit: p.opts.WriteLimit}
}

// The largest bodies, in bytes.
const (
	smallBody   = 1 << 20
	commandBody = 8 << 20
)

// decode decodes the body of a request, one JSON value, into to. Unknown fields are ignored,
// as OpenSandbox does. An empty body leaves to as it is.
func (p replies) decode(w http.ResponseWriter, r *http.Request, most int64, to any) error {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); r.Header.Get("Content-Type") != "" && (err != nil || media != "application/json") {
		return &fault{http.StatusUnsupportedMediaType, "INVALID_REQUEST_BODY", "the request's Content-Type must be application/json"}
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(p.opts.BodyLimit)) // always supported
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large), errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case err != nil:
		return &fault{http.StatusBadRequest, "INVALID_REQUEST_BODY", "the request's body cannot be read"}
	}
	_ = control.SetReadDeadline(time.Time{})
	if len(body) == 0 {
		return nil
	}
	err = json.Unmarshal(body, to)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		return &fault{http.StatusBadRequest, "INVALID_REQUEST_BODY", fmt.Sprintf("field %q: a JSON %s is the wrong type", wrong.Field, wrong.Value)}
	case err != nil && json.Valid(body):
		return &fault{http.StatusBadRequest, "INVALID_REQUEST_BODY", "the request's body: " + err.Error()}
	case err != nil:
		return &fault{http.StatusBadRequest, "INVALID_REQUEST_BODY", "the request's body is not JSON"}
	}
	return nil
}
