// Package cleanup undoes completed steps when a later step fails.
package cleanup

import "errors"

// A Stack holds functions that undo completed steps, the newest last. The zero Stack is
// empty and ready to use. It is not safe for concurrent use.
type Stack struct{ undo []func() error }

// Add pushes the function that undoes a step.
func (s *Stack) Add(undo func() error) { s.undo = append(s.undo, undo) }

// Release empties the stack without calling the functions: the steps stay done.
func (s *Stack) Release() { s.undo = nil }

// Unwind calls the functions, the newest first, and joins their errors to *errp. Defer
// it after the first Add.
func (s *Stack) Unwind(errp *error) {
	for i := len(s.undo) - 1; i >= 0; i-- {
		*errp = errors.Join(*errp, s.undo[i]())
	}
	s.undo = nil
}
