package server

import (
	"errors"
	"net/http"

	"wolffia/service"
	"wolffia/service/gate"
	"wolffia/service/registry"
)

// The errors of this package.
var (
	// ErrStopping is the error of a request that Stop has canceled.
	ErrStopping = errors.New("the service is being stopped")

	errTooLarge = errors.New("the request is too large")
	errSlow     = errors.New("the request did not arrive in time")
	errType     = errors.New("the request's Content-Type must be application/json")
	errMethod   = errors.New("the request's method must be POST")
	errNoCall   = errors.New("unknown call")
)

// statuses maps errors to a status and to the code in the reply; the first match counts.
var statuses = append([]gate.Status{
	{Is: ErrStopping, HTTP: http.StatusServiceUnavailable, Code: "stopping"},
	{Is: errTooLarge, HTTP: http.StatusRequestEntityTooLarge, Code: "tooLarge"},
	{Is: errSlow, HTTP: http.StatusRequestTimeout, Code: "tooSlow"},
	{Is: errType, HTTP: http.StatusUnsupportedMediaType, Code: "invalidType"},
	{Is: errMethod, HTTP: http.StatusMethodNotAllowed, Code: "invalidMethod"},
	{Is: errNoCall, HTTP: http.StatusNotFound, Code: "noSuchCall"},
}, gate.Statuses...)

// A failure describes an error in a reply.
type failure struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	RequestID string `json:"requestId"`
	// SandboxID is the owner's existing sandbox.
	SandboxID string `json:"sandboxId,omitempty"`
}

// failureOf returns the status and the description of err. An error without a class is
// a bug: the description says nothing of it.
func failureOf(err error) (status int, f failure) {
	if refused, ok := errors.AsType[*gate.Refusal](err); ok {
		return refused.Status, failure{Code: refused.Code, Message: refused.Message}
	}
	for _, s := range statuses {
		if !errors.Is(err, s.Is) {
			continue
		}
		f = failure{Code: s.Code, Message: err.Error()}
		if conflict, ok := errors.AsType[*registry.ConflictError](err); ok {
			f.SandboxID = conflict.SandboxID
		}
		return s.HTTP, f
	}
	return http.StatusInternalServerError, failure{Code: "internal", Message: "internal error: see the service's log for this request id"}
}

// partial returns the result up to err, or nil.
func partial(err error) any {
	if late, ok := errors.AsType[*service.TimeoutError](err); ok && late.Result != nil {
		return late.Result
	}
	if some, ok := errors.AsType[*someError](err); ok {
		return some.result
	}
	return nil
}

// A someError is an error after a part of the work, with its result.
type someError struct {
	error
	result any
}

func (e *someError) Unwrap() error { return e.error }
