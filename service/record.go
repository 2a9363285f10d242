package service

import (
	"context"
	"errors"

	"wolffia/runtime"
)

// The kinds of records.
const (
	RecordAnswer  = "answer"  // a question was answered
	RecordApply   = "apply"   // changes were made in the host's directory
	RecordDiscard = "discard" // changes were taken back
)

// A Record is what a caller has done that outlives the sandbox.
type Record struct {
	Kind     string
	Sandbox  *runtime.Sandbox
	Key      string            // the name of the caller's API key; empty: none
	Question *runtime.Question // of RecordAnswer; nil: it is not known any more
	Answer   *runtime.Answer   // of RecordAnswer
	Changes  int               // of the others
	Paths    []string          // of the changes
}

// note passes a record on, with the key of ctx.
func note(ctx context.Context, s *Service, r *Record) {
	if do := s.options().Record; do != nil {
		r.Key = CallerOf(ctx).Key
		do(r)
	}
}

// errFound ends Questions.
var errFound = errors.New("the questions are known")

// questionOf returns a question of a sandbox that waits; nil: none does.
func questionOf(ctx context.Context, asker runtime.Asker, sandboxID, id string) (found *runtime.Question) {
	_ = asker.Questions(ctx, sandboxID, func(all []runtime.Question) error {
		for i := range all {
			if all[i].ID == id {
				found = &all[i]
			}
		}
		return errFound
	})
	return found
}
