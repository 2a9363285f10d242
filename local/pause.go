package local

import (
	"context"

	"wolffia/internal/host/boot"
	"wolffia/local/conns"
)

// Pause implements [runtime.Runtime].
func (s *settings) Pause(ctx context.Context, sandboxID string) error {
	return s.askPause(ctx, sandboxID, boot.OpPause)
}

// Resume implements [runtime.Runtime].
func (s *settings) Resume(ctx context.Context, sandboxID string) error {
	return s.askPause(ctx, sandboxID, boot.OpResume)
}

func (s *settings) askPause(ctx context.Context, sandboxID, op string) error {
	rec, _, err := s.header(sandboxID)
	if err != nil {
		return err
	}
	return conns.AskPause(ctx, rec, op)
}
