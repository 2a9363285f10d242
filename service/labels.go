package service

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/service/registry"
)

// SetOwner adds the labels of owner o, which must be valid, to the configuration of a
// new sandbox, and an id if it has none. git says that git will be configured in the
// sandbox.
func SetOwner(c *runtime.SandboxConfig, o registry.Owner, git bool) {
	if c.ID == "" {
		c.ID = runtime.NewID()
	}
	c.Labels = maps.Clone(c.Labels)
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	maps.Copy(c.Labels, map[string]string{
		launch.LabelSandboxID:      c.ID,
		launch.LabelOrganizationID: o.OrganizationID,
		launch.LabelProjectID:      o.ProjectID,
		launch.LabelUserID:         o.UserID,
		launch.LabelCreatedAt:      strconv.FormatInt(time.Now().UnixMilli(), 10),
		launch.LabelGitConfigured:  strconv.FormatBool(git),
	})
}

// MetadataOf returns what a sandbox's labels record. ok is false unless they are
// complete, valid, and of this sandbox.
func MetadataOf(s *runtime.Sandbox) (m registry.Metadata, ok bool) {
	git := s.Labels[launch.LabelGitConfigured]
	m = registry.Metadata{
		SandboxID: s.ID, ContainerName: s.ContainerName(),
		Owner: registry.Owner{
			OrganizationID: s.Labels[launch.LabelOrganizationID],
			ProjectID:      s.Labels[launch.LabelProjectID],
			UserID:         s.Labels[launch.LabelUserID],
		},
		CreatedAt: s.CreatedAt.UnixMilli(), GitConfigured: git == "true",
	}
	// Id and time are those of the runtime; labels that differ are not SetOwner's.
	created, err := strconv.ParseInt(s.Labels[launch.LabelCreatedAt], 10, 64)
	if err != nil || created < 0 || s.Labels[launch.LabelSandboxID] != s.ID ||
		!slices.Contains([]string{"true", "false", ""}, git) || m.Validate() != nil {
		return registry.Metadata{}, false
	}
	return m, true
}

// Lost returns the sandboxes that a container engine still has though the state
// directory has lost them, and whose owner labels are complete and valid. They
// cannot be used any more. With an error there may be others.
func Lost(ctx context.Context, rt Runtime) ([]registry.Metadata, error) {
	all, err := rt.Lost(ctx)
	return owned(all, func(*runtime.Sandbox) bool { return true }), err
}

// Scan returns the running and paused sandboxes of a runtime whose owner labels are complete and
// valid, oldest first. It leaves out those that have expired.
func Scan(ctx context.Context, rt runtime.Runtime) ([]registry.Metadata, error) {
	all, err := rt.List(ctx)
	return owned(all, func(s *runtime.Sandbox) bool { return s.State.Runs() && s.Expired == "" }), err
}

// owned returns the metadata of the wanted sandboxes that have an owner.
func owned(all []*runtime.Sandbox, wanted func(*runtime.Sandbox) bool) (found []registry.Metadata) {
	for _, s := range all {
		if m, ok := MetadataOf(s); ok && wanted(s) {
			found = append(found, m)
		}
	}
	return found
}
