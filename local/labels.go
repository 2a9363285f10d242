package local

import (
	"context"
	"maps"

	"wolffia/internal/host/boot"
	"wolffia/runtime"
)

// ChangeLabels replaces the labels of a sandbox by what edit makes of a copy of them, which is
// never nil, whether the sandbox runs or not. Calls for one sandbox are serialized. The container
// that an engine made for it keeps those that it has. The error is edit's, or that of an invalid
// label.
func (s *settings) ChangeLabels(ctx context.Context, sandboxID string, edit func(labels map[string]string) error) (*runtime.Sandbox, error) {
	rec, c, release, err := s.changing(ctx, sandboxID)
	if err != nil {
		return nil, err
	}
	defer release()
	if c.Labels = maps.Clone(c.Labels); c.Labels == nil {
		c.Labels = map[string]string{}
	}
	if err := edit(c.Labels); err != nil {
		return nil, err
	}
	if err := runtime.CheckLabels(c.Labels); err != nil {
		return nil, err
	}
	if err := amend(ctx, rec, c, c, "labels", "", func(context.Context) (*boot.Reply, error) { return nil, nil }); err != nil {
		return nil, err
	}
	return describe(rec, c, rec.State)
}
