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
func (own Owned) Reconcile(ctx context.Context) error {
	own.s.reconciling.Lock()
	defer own.s.reconciling.Unlock()
	half, err := own.s.registry.Reserved()
	if err != nil {
		return err
	}
	for _, m := range half {
		if err := own.clear(ctx, m.SandboxID); err != nil { // it stays reserved for the next attempt
			own.s.log.Error("cannot destroy a half-created sandbox", "sandboxId", m.SandboxID, "error", err)
		}
	}
	found, err := Scan(ctx, own.s.rt)
	if err != nil {
		return err
	}
	stopped, err := own.stopped(ctx, found)
	if err != nil {
		return err
	}
	step.Reached("reconcile: found")
	done, err := own.s.registry.Reconcile(append(found, stopped...))
	if err != nil {
		return err
	}
	step.Reached("reconcile: recorded")
	for _, m := range done.Added {
		own.s.log.Info("adopted a running sandbox", attributes(m)...)
	}
	for _, id := range done.Removed {
		own.s.log.Info(stale, "sandboxId", id)
	}
	for _, m := range done.Conflicts {
		own.s.log.Warn("ignored a running sandbox: its owner has another", attributes(m)...)
	}
	for _, m := range done.Skipped {
		own.s.log.Warn("ignored a running sandbox: its owner labels are invalid", "sandboxId", m.SandboxID)
	}
	own.reportLost(ctx)
	return nil
}

// reportLost logs the sandboxes that only a container engine still has. They are for
// the operator to remove: they may hold data that a user wants back.
func (own Owned) reportLost(ctx context.Context) {
	lost, err := Lost(ctx, own.s.rt)
	if err != nil {
		own.s.log.Warn("cannot list the sandboxes of a container engine", "error", err)
	}
	for _, m := range lost {
		own.s.log.Warn("lost a sandbox: a container engine has it, the state directory does not; wolffia rm removes it", attributes(m)...)
	}
}

// stopped returns the registered sandboxes that exist and are not among the running
// ones.
func (own Owned) stopped(ctx context.Context, running []registry.Metadata) ([]registry.Metadata, error) {
	isRunning := map[string]bool{}
	for _, m := range running {
		isRunning[m.SandboxID] = true
	}
	registered, err := own.s.registry.List()
	if err != nil {
		return nil, err
	}
	var stopped []registry.Metadata
	for _, m := range registered {
		if isRunning[m.SandboxID] {
			continue
		}
		_, err := own.look(ctx, m.SandboxID)
		switch {
		case err == nil:
			stopped = append(stopped, m)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !errors.Is(err, runtime.ErrNotFound): // it may exist
			stopped = append(stopped, m)
			own.s.log.Warn("cannot read the state of a sandbox", "sandboxId", m.SandboxID, "error", err)
		}
	}
	return stopped, nil
}

// clear destroys a sandbox that was left half created or half destroyed.
func (own Owned) clear(ctx context.Context, id string) error {
	if err := own.s.remove(ctx, id); err != nil {
		return err
	}
	own.s.log.Info("destroyed a half-created sandbox", "sandboxId", id)
	return nil
}

func attributes(m registry.Metadata) []any {
	return []any{"sandboxId", m.SandboxID, "organizationId", m.OrganizationID, "projectId", m.ProjectID, "userId", m.UserID}
}
