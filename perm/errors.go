package perm

import (
	"errors"
	"fmt"
)

// ErrInvalid matches, by errors.Is, every error that this package returns: its input
// is malformed.
var ErrInvalid = errors.New("invalid permission rules")

// An inputError is an error that matches ErrInvalid and does not repeat it in
// its text.
type inputError struct{ err error }

func (e *inputError) Error() string        { return e.err.Error() }
func (e *inputError) Unwrap() error        { return e.err }
func (e *inputError) Is(target error) bool { return target == ErrInvalid }

func invalid(format string, args ...any) error {
	return &inputError{fmt.Errorf(format, args...)}
}
