package runtime

import (
	"errors"
	"fmt"
	"syscall"
)

// The classes of error on which callers act. Every error of a runtime wraps one of them,
// unless it is the context's or that of the caller's own Stdin. Match with errors.Is.
var (
	// ErrInvalid: the request itself is wrong; repeating it does not help.
	ErrInvalid = errors.New("invalid")
	// ErrNotFound: the sandbox, session, process or file does not exist.
	ErrNotFound = errors.New("not found")
	// ErrExists: the id or name is taken.
	ErrExists = errors.New("already exists")
	// ErrDenied: the caller may not do this.
	ErrDenied = errors.New("denied")
	// ErrConflict: the sandbox or session is in the wrong state for this.
	ErrConflict = errors.New("conflict")
	// ErrUnavailable: the host or the backend cannot do this in its present state.
	ErrUnavailable = errors.New("unavailable")
	// ErrUnsupported: this runtime never does this.
	ErrUnsupported = errors.New("unsupported")
)

// Classes returns every class, for tables that map them to exit codes or HTTP statuses.
func Classes() []error {
	return []error{ErrInvalid, ErrNotFound, ErrExists, ErrDenied, ErrConflict, ErrUnavailable, ErrUnsupported}
}

// Class returns the class that err wraps, or nil.
func Class(err error) error {
	for _, c := range Classes() {
		if errors.Is(err, c) {
			return c
		}
	}
	return nil
}

// Exhausted reports whether err is that of a process, or a host, without a free descriptor or
// memory (EMFILE, ENFILE, ENOMEM). It says nothing of the sandbox that the call was about.
func Exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// A classed error has a class that its text does not show.
type classed struct {
	error
	class error
}

func (c *classed) Unwrap() []error { return []error{c.error, c.class} }

// WithClass returns err as an error of the class, with the same text.
func WithClass(class, err error) error { return &classed{err, class} }

// Errorf is fmt.Errorf that returns an error of the class.
func Errorf(class error, format string, args ...any) error {
	return WithClass(class, fmt.Errorf(format, args...))
}
