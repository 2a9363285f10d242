package server

import (
	"context"
	"errors"
	"net/http"

	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/registry"
)

// What this package itself has to say.
var (
	// ErrStopping: the service is being stopped, and this request was cut off.
	ErrStopping = errors.New("the service is being stopped")

	errTooLarge = errors.New("the request is too large")
	errSlow     = errors.New("the request did not arrive in time")
	errType     = errors.New("the request must be application/json")
	errMethod   = errors.New("each call is a POST")
	errNoCall   = errors.New("there is no such call")
)

// statusCanceled is what the log says of a request whose client has gone away,
// which nobody is told: as nginx does.
const statusCanceled = 499

// statuses maps what an error is to a status and to the code that programs read;
// the first that matches counts.
var statuses = []struct {
	is     error
	status int
	code   string
}{
	{ErrStopping, http.StatusServiceUnavailable, "stopping"},
	{errTooLarge, http.StatusRequestEntityTooLarge, "tooLarge"},
	{errSlow, http.StatusRequestTimeout, "tooSlow"},
	{errType, http.StatusUnsupportedMediaType, "invalidType"},
	{errMethod, http.StatusMethodNotAllowed, "invalidMethod"},
	{errNoCall, http.StatusNotFound, "noSuchCall"},
	{context.Canceled, statusCanceled, "canceled"},
	{context.DeadlineExceeded, http.StatusGatewayTimeout, "timedOut"},
	{runtime.ErrInvalid, http.StatusBadRequest, "invalid"},
	{runtime.ErrNotFound, http.StatusNotFound, "notFound"},
	{runtime.ErrExists, http.StatusConflict, "exists"},
	{runtime.ErrDenied, http.StatusForbidden, "denied"},
	{runtime.ErrConflict, http.StatusConflict, "conflict"},
	{runtime.ErrUnavailable, http.StatusServiceUnavailable, "unavailable"},
	{runtime.ErrUnsupported, http.StatusNotImplemented, "unsupported"},
}

// A failure is what a client is told of an error.
type failure struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	RequestID string `json:"requestId"`
	// SandboxID is the one that the owner has already.
	SandboxID string `json:"sandboxId,omitempty"`
}

// failureOf is what err means to a client. Of an error of no class, which is a
// mistake of ours, nothing is told.
func failureOf(err error) (status int, f failure) {
	for _, s := range statuses {
		if !errors.Is(err, s.is) {
			continue
		}
		f = failure{Code: s.code, Message: err.Error()}
		var conflict *registry.ConflictError
		if errors.As(err, &conflict) {
			f.SandboxID = conflict.SandboxID
		}
		return s.status, f
	}
	return http.StatusInternalServerError, failure{Code: "internal", Message: "the service has failed; its log says why, by this request's id"}
}

// partial is what was done or said before err, if anything is known of it.
func partial(err error) any {
	var late *service.TimeoutError
	if errors.As(err, &late) && late.Result != nil {
		return (*bashResult)(late.Result)
	}
	var some *someError
	if errors.As(err, &some) {
		return some.result
	}
	return nil
}

// A someError is an error after a part of the work was done.
type someError struct {
	error
	result any
}

func (e *someError) Unwrap() error { return e.error }
