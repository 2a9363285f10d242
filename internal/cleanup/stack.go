// Package cleanup undoes what has been done so far when a later step fails.
package cleanup

import "errors"

// A Stack holds the steps that undo what has been done so far, newest last.
// The zero Stack is empty and ready to use.
type Stack struct{ undo []func() error }

// Add pushes one step.
func (s *Stack) Add(undo func() error) { s.undo = append(s.undo, undo) }

// Release forgets the steps: what they undo is now the caller's to keep.
func (s *Stack) Release() { s.undo = nil }

// Unwind runs the steps, newest first, and joins their errors to *errp.
// It is meant to be deferred.
func (s *Stack) Unwind(errp *error) {
	for i := len(s.undo) - 1; i >= 0; i-- {
		*errp = errors.Join(*errp, s.undo[i]())
	}
	s.undo = nil
}
