// Package fault has the errors of E2B's interface with their statuses of HTTP.
package fault

import (
	"errors"
	"fmt"
	"net/http"
	"os"

	"wolffia/ops"
	"wolffia/runtime"
	"wolffia/service/gate"
)

// An Error is an error with its status of HTTP, which E2B repeats in the body.
type Error struct {
	Status  int
	Message string
}

func (e *Error) Error() string { return e.Message }

// New returns an error.
func New(status int, message string) *Error { return &Error{status, message} }

// Invalid returns the error for a wrong request.
func Invalid(format string, args ...any) *Error {
	return New(http.StatusBadRequest, fmt.Sprintf(format, args...))
}

// Unsupported returns the error for what there is not here, with the reason.
func Unsupported(format string, args ...any) *Error {
	return New(http.StatusNotImplemented, fmt.Sprintf(format, args...))
}

// Of returns how an error is answered; ok is false for one without a class, which is a bug: the
// reply says nothing of it.
func Of(err error) (e *Error, ok bool) {
	large := new(http.MaxBytesError)
	switch {
	case errors.As(err, &e):
		return e, true
	case errors.As(err, &large):
		why := fmt.Sprintf("the request is larger than %d bytes", large.Limit)
		return New(http.StatusRequestEntityTooLarge, why), true
	case errors.Is(err, ops.ErrFull):
		return New(http.StatusInsufficientStorage, err.Error()), true
	case errors.Is(err, os.ErrDeadlineExceeded):
		return New(http.StatusRequestTimeout, "the request's body has not arrived in time"), true
	}
	if refused, is := errors.AsType[*gate.Refusal](err); is {
		message := refused.Message
		if refused.Status == http.StatusUnauthorized {
			message += ": it is the SDK's E2B_API_KEY"
		}
		return New(refused.Status, message), true
	}
	s, known := gate.StatusOf(err)
	switch {
	case !known:
		const why = "internal error: see the service's log for this request id"
		return New(http.StatusInternalServerError, why), false
	case s.Is == runtime.ErrUnavailable: // clients repeat a 503, or take it for a dead sandbox
		s.HTTP = http.StatusInternalServerError
	}
	return New(s.HTTP, err.Error()), true
}

// A Reply is the reply to a request that failed. The SDKs read the status from the body.
type Reply struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Reply returns the error as a body.
func (e *Error) Reply() Reply { return Reply{e.Status, e.Message} }
