package gate

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"

	"wolffia/runtime"
	"wolffia/service/quota"
)

// StatusCanceled is the status in the log of a request whose client has gone away, as in nginx.
const StatusCanceled = 499

// A Status is how an error is answered.
type Status struct {
	Is   error // what the error wraps
	HTTP int
	// Code and OpenSandbox are for programs: the code of the native calls, and that of
	// OpenSandbox's.
	Code, OpenSandbox string
}

// Statuses are how the errors of a service are answered; the first match counts.
var Statuses = []Status{
	{quota.ErrTooOften, http.StatusTooManyRequests, "tooOften", "TOO_MANY_REQUESTS"},
	{context.Canceled, StatusCanceled, "canceled", "CANCELED"},
	{context.DeadlineExceeded, http.StatusGatewayTimeout, "timedOut", "TIMED_OUT"},
	{runtime.ErrInvalid, http.StatusBadRequest, "invalid", "INVALID_PARAMETER"},
	{runtime.ErrNotFound, http.StatusNotFound, "notFound", "SANDBOX_NOT_FOUND"},
	{runtime.ErrExists, http.StatusConflict, "exists", "CONFLICT"},
	{runtime.ErrDenied, http.StatusForbidden, "denied", "DENIED"},
	{runtime.ErrConflict, http.StatusConflict, "conflict", "CONFLICT"},
	{runtime.ErrUnavailable, http.StatusServiceUnavailable, "unavailable", "UNAVAILABLE"},
	{runtime.ErrUnsupported, http.StatusNotImplemented, "unsupported", "NOT_SUPPORTED"},
}

// Hint sets the header Retry-After (RFC 9110, section 10.2.3) if err says when to ask again.
func Hint(h http.Header, err error) {
	if e, ok := errors.AsType[*quota.RateError](err); ok {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.After.Seconds()))))
	}
}

// StatusOf returns how an error is answered; ok is false for one that is a bug.
func StatusOf(err error) (s Status, ok bool) {
	for _, s := range Statuses {
		if errors.Is(err, s.Is) {
			return s, true
		}
	}
	return Status{}, false
}
