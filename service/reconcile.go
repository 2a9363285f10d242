package service

import (
	"context"
	"errors"

	"wolffia/internal/sys/step"
	"wolffia/runtime"
	"wolffia/service/registry"
)

const stale = "removed a stale entry: its sandbox is gone"

// Reconcile corrects the registry by the sandboxes that exist. It destroys those that
// were left half created or half destroyed, removes the entries of those that are
// gone or have expired, and adopts running ones that are not registered. A registered
// sandbox that has stopped stays its owner's until it is destroyed or replaced.
// Each change is logged. Calls that create or destroy sandboxes wait for Reconcile.
func (s *Service) Reconcile(ctx context.Context) error {
	s.reconciling.Lock()
	defer s.reconciling.Unlock()
	half, err := s.registry.Reserved()
	if err != nil {
		return err
	}
	for _, m := range half {
		if err := s.clear(ctx, m.SandboxID); err != nil { // it stays reserved for the next attempt
			s.log.Error("cannot destroy a half-created sandbox", "sandboxId", m.SandboxID, "error", err)
		}
	}
	found, err := Scan(ctx, s.rt)
	if err != nil {
		return err
	}
	stopped, err := s.stopped(ctx, found)
	if err != nil {
		return err
	}
	step.Reached("reconcile: found")
	done, err := s.registry.Reconcile(append(found, stopped...))
	if err != nil {
		return err
	}
	step.Reached("reconcile: recorded")
	for _, m := range done.Added {
		s.log.Info("adopted a running sandbox", attributes(m)...)
	}
	for _, id := range done.Removed {
		s.log.Info(stale, "sandboxId", id)
	}
	for _, m := range done.Conflicts {
		s.log.Warn("ignored a running sandbox: its owner has another", attributes(m)...)
	}
	for _, m := range done.Skipped {
		s.log.Warn("ignored a running sandbox: its owner labels are invalid", "sandboxId", m.SandboxID)
	}
	s.reportLost(ctx)
	return nil
}

// reportLost logs the sandboxes that only a container engine still has. They are for
// the operator to remove: they may hold data that a user wants back.
func (s *Service) reportLost(ctx context.Context) {
	lost, err := Lost(ctx, s.rt)
	if err != nil {
		s.log.Warn("cannot list the sandboxes of a container engine", "error", err)
	}
	for _, m := range lost {
		s.log.Warn("lost a sandbox: a container engine has it, the state directory does not; wolffia rm removes it", attributes(m)...)
	}
}

// stopped returns the registered sandboxes that exist and are not among the running
// ones.
func (s *Service) stopped(ctx context.Context, running []registry.Metadata) ([]registry.Metadata, error) {
	isRunning := map[string]bool{}
	for _, m := range running {
		isRunning[m.SandboxID] = true
	}
	registered, err := s.registry.List()
	if err != nil {
		return nil, err
	}
	var stopped []registry.Metadata
	for _, m := range registered {
		if isRunning[m.SandboxID] {
			continue
		}
		_, err := s.look(ctx, m.SandboxID)
		switch {
		case err == nil:
			stopped = append(stopped, m)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !errors.Is(err, runtime.ErrNotFound): // it may exist
			stopped = append(stopped, m)
			s.log.Warn("cannot read the state of a sandbox", "sandboxId", m.SandboxID, "error", err)
		}
	}
	return stopped, nil
}

// clear destroys a sandbox that was left half created or half destroyed.
func (s *Service) clear(ctx context.Context, id string) error {
	if err := s.remove(ctx, id); err != nil {
		return err
	}
	s.log.Info("destroyed a half-created sandbox", "sandboxId", id)
	return nil
}

func attributes(m registry.Metadata) []any {
	return []any{"sandboxId", m.SandboxID, "organizationId", m.OrganizationID, "projectId", m.ProjectID, "userId", m.UserID}
}
