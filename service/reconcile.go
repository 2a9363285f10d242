package service

import (
	"context"
	"errors"

	"wolffia/internal/step"
	"wolffia/runtime"
	"wolffia/service/registry"
)

// Reconcile makes the registry say what there is: what was left half made is
// destroyed, entries of sandboxes that are gone are removed, running sandboxes
// that are not registered are adopted. A registered sandbox that does not run
// any more stays its owner's, until it is destroyed or replaced; unless its
// lifetime is over: then it is gone. Each change is a
// line in the log. Calls that make or destroy sandboxes wait for it.
func (s *Service) Reconcile(ctx context.Context) error {
	s.making.Lock()
	defer s.making.Unlock()
	half, err := s.registry.Reserved()
	if err != nil {
		return err
	}
	for _, m := range half {
		if err := s.clear(ctx, m.SandboxID); err != nil { // it stays reserved, to be cleared later
			s.log.Error("a sandbox that was left half made cannot be destroyed", "sandboxId", m.SandboxID, "error", err)
		}
	}
	found, err := s.driver.ScanRunningSandboxes(ctx)
	if err != nil {
		return err
	}
	idle, err := s.notRunning(ctx, found)
	if err != nil {
		return err
	}
	step.Reached("reconcile: found")
	done, err := s.registry.Reconcile(append(found, idle...))
	if err != nil {
		return err
	}
	step.Reached("reconcile: recorded")
	for _, m := range done.Added {
		s.log.Info("a running sandbox was not registered and is adopted", attributes(m)...)
	}
	for _, id := range done.Removed {
		s.log.Info("a stale entry is removed: its sandbox is gone", "sandboxId", id)
	}
	for _, m := range done.Conflicts {
		s.log.Warn("a running sandbox is left alone: its owner has another", attributes(m)...)
	}
	for _, m := range done.Skipped {
		s.log.Warn("a running sandbox is left alone: its owner is not known in full", "sandboxId", m.SandboxID)
	}
	s.reportLost(ctx)
	return nil
}

// reportLost says what is left of sandboxes that nobody can work in any more. It
// is for the operator to remove: it may hold what somebody wants back.
func (s *Service) reportLost(ctx context.Context) {
	l, is := s.driver.(loser)
	if !is {
		return
	}
	lost, err := l.LostSandboxes(ctx)
	if err != nil {
		s.log.Warn("an engine does not say what it has", "error", err)
	}
	for _, m := range lost {
		s.log.Warn("a sandbox is lost: an engine has it, the state directory does not; wolffia rm removes it", attributes(m)...)
	}
}

// notRunning returns those that are registered, were not found running, and are
// there.
func (s *Service) notRunning(ctx context.Context, found []registry.Metadata) ([]registry.Metadata, error) {
	st, is := s.driver.(stater)
	if !is {
		return nil, nil
	}
	running := map[string]bool{}
	for _, m := range found {
		running[m.SandboxID] = true
	}
	registered, err := s.registry.List()
	if err != nil {
		return nil, err
	}
	var idle []registry.Metadata
	for _, m := range registered {
		if running[m.SandboxID] {
			continue
		}
		_, err := st.State(ctx, m.SandboxID)
		switch {
		case err == nil:
			idle = append(idle, m)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !errors.Is(err, runtime.ErrNotFound): // it is there, in whatever state
			idle = append(idle, m)
			s.log.Warn("the state of a sandbox cannot be told", "sandboxId", m.SandboxID, "error", err)
		}
	}
	return idle, nil
}

// clear destroys what was left half made.
func (s *Service) clear(ctx context.Context, id string) error {
	if err := s.destroy(ctx, id); err != nil {
		return err
	}
	s.log.Info("a sandbox that was left half made is destroyed", "sandboxId", id)
	return nil
}

// forget removes the entry of a sandbox that is gone, or over.
func (s *Service) forget(m registry.Metadata, why string) error {
	if err := s.registry.Unregister(m.SandboxID); err != nil {
		return err
	}
	s.log.Info("a stale entry is removed: "+why, "sandboxId", m.SandboxID)
	return nil
}

func attributes(m registry.Metadata) []any {
	return []any{"sandboxId", m.SandboxID, "organizationId", m.OrganizationID, "projectId", m.ProjectID, "userId", m.UserID}
}
