package service

import (
	"context"
	"errors"
	"time"

	"wolffia/runtime"
)

// The kinds of records.
const (
	RecordAnswer  = "answer"  // a question was answered
	RecordApply   = "apply"   // changes were made in the host's directory
	RecordDiscard = "discard" // changes were taken back
	RecordExport  = "export"  // commits were made branches of the host
	RecordCommand = "command" // a command has ended
)

// A Record is what a caller has done that outlives the sandbox.
type Record struct {
	Kind     string
	Sandbox  *runtime.Sandbox
	Key      string            // the name of the caller's API key; empty: none
	Question *runtime.Question // of RecordAnswer; nil: it is not known any more
	Answer   *runtime.Answer   // of RecordAnswer
	Changes  int               // of the others
	Paths    []string          // of the changes; of RecordExport the branches
	Command  []string          // of RecordCommand, with the two below
	ExitCode int
	Duration time.Duration
}

// note passes a record on, with the key of ctx.
func note(ctx context.Context, s *Service, r *Record) {
	if do := s.options().Record; do != nil {
		r.Key = CallerOf(ctx).Key
		do(r)
	}
}

// ran notes that a command has ended, for the meter and as a record. session says that a shell that
// keeps its state evaluated it. b may be nil: then it is looked up.
func (s *Service) ran(ctx context.Context, id string, b *runtime.Sandbox, session bool, command []string, took time.Duration, r *runtime.Result) {
	o := s.options()
	o.Meter.Ran(session, took, r)
	if o.Record == nil {
		return
	}
	if b == nil {
		var err error
		if b, err = s.rt.Get(context.WithoutCancel(ctx), id); err != nil {
			b = &runtime.Sandbox{ID: id} // it is gone
		}
	}
	note(ctx, s, &Record{Kind: RecordCommand, Sandbox: b, Command: command, ExitCode: r.ExitCode, Duration: took})
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
