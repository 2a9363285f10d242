package service

import (
	"context"
	"time"
)

// PauseAgain is after how long a pause that has failed is tried again.
func PauseAgain(after time.Duration) { pauseAgain = after }

// LookAgain is how long the timer of a pause runs at most.
func LookAgain(after time.Duration) { lookAgain = after }

// Sleep has the wall clock be later than timers know, 0: not.
func Sleep(d time.Duration) { slept.Store(int64(d)) }

// Probe, ConfigureGit and Restart are what the service does in a sandbox, of any owner.
func (s *Service) Probe(ctx context.Context, id string) error { return probe(ctx, s.rt, id) }

func (s *Service) ConfigureGit(ctx context.Context, id string, g *GitConfig) error {
	return configureGit(ctx, s.rt, id, g)
}

func (s *Service) Restart(ctx context.Context, id string) error { return restart(ctx, s.rt, id) }

// PausesLater reports whether a sandbox is to be paused at its end.
func (s *Service) PausesLater(id string) bool {
	_, is := s.stops.Load(id)
	return is
}
