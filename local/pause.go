package local

import (
	"context"

	"wolffia/internal/host/boot"
	"wolffia/local/conns"
	"wolffia/runtime"
)

// Pause implements [runtime.Runtime].
func (s *settings) Pause(ctx context.Context, sandboxID string) error {
	rec, _, err := s.header(sandboxID)
	if err != nil {
		return err
	}
	return conns.AskPause(ctx, rec, boot.OpPause)
}

// Resume implements [runtime.Runtime]. A sandbox that hibernates is started.
func (s *sandboxes) Resume(ctx context.Context, sandboxID string) error {
	rec, _, err := s.header(sandboxID)
	if err != nil {
		return err
	}
	if state, _, _ := rec.State(); state == runtime.StateHibernated {
		return s.starter.conns.Wake(ctx, rec)
	}
	return conns.AskPause(ctx, rec, boot.OpResume)
}
