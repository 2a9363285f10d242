package service

import (
	"context"
	"maps"
	"strconv"
	"time"

	"wolffia/runtime"
	"wolffia/service/registry"
)

// The labels that say whose a sandbox is. They are part of its configuration, so
// that it can be told of a sandbox alone, whatever else was lost.
const (
	labelSandboxID      = "wolffia.sandboxId"
	labelOrganizationID = "wolffia.organizationId"
	labelProjectID      = "wolffia.projectId"
	labelUserID         = "wolffia.userId"
	labelCreatedAt      = "wolffia.createdAt"     // ms since 1970
	labelGitConfigured  = "wolffia.gitConfigured" // true or false
)

// SetOwner makes c, which is not made yet, the configuration of a sandbox of
// owner o, which must be valid. It gives it an id, if it has none. git says that
// git will be configured for the owner.
func SetOwner(c *runtime.SandboxConfig, o registry.Owner, git bool) {
	if c.ID == "" {
		c.ID = runtime.NewID()
	}
	c.Labels = maps.Clone(c.Labels)
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	maps.Copy(c.Labels, map[string]string{
		labelSandboxID: c.ID, labelOrganizationID: o.OrganizationID, labelProjectID: o.ProjectID, labelUserID: o.UserID,
		labelCreatedAt: strconv.FormatInt(time.Now().UnixMilli(), 10), labelGitConfigured: strconv.FormatBool(git),
	})
}

// MetadataOf tells whose a sandbox is. ok is false unless its labels say all of
// it, and of this sandbox.
func MetadataOf(s *runtime.Sandbox) (m registry.Metadata, ok bool) {
	m = registry.Metadata{
		SandboxID: s.ID, ContainerName: s.ContainerName(),
		Owner: registry.Owner{
			OrganizationID: s.Labels[labelOrganizationID], ProjectID: s.Labels[labelProjectID], UserID: s.Labels[labelUserID],
		},
		CreatedAt: s.CreatedAt.UnixMilli(),
	}
	// The runtime's own word on id and time counts; labels that differ, or make
	// no sense, are not ours.
	made, err := strconv.ParseInt(s.Labels[labelCreatedAt], 10, 64)
	if err != nil || made < 0 || s.Labels[labelSandboxID] != s.ID {
		return registry.Metadata{}, false
	}
	switch s.Labels[labelGitConfigured] {
	case "true":
		m.GitConfigured = true
	case "false", "":
	default:
		return registry.Metadata{}, false
	}
	if m.Validate() != nil {
		return registry.Metadata{}, false
	}
	return m, true
}

// Lost returns whose the sandboxes are that an engine still has though the state
// directory does not know them any more, of those of which it is known in full.
// Nobody can work in them; a runtime that keeps no engine has none. With an error
// there may be others.
func Lost(ctx context.Context, rt runtime.Runtime) ([]registry.Metadata, error) {
	l, is := rt.(interface {
		Lost(ctx context.Context) ([]*runtime.Sandbox, error)
	})
	if !is {
		return nil, nil
	}
	all, err := l.Lost(ctx)
	var found []registry.Metadata
	for _, s := range all {
		if m, ok := MetadataOf(s); ok {
			found = append(found, m)
		}
	}
	return found, err
}

// Scan returns whose the running sandboxes of a runtime are, oldest first, as
// they themselves say. One of which that is not known in full, or that is ending
// since its lifetime is over, is left out.
func Scan(ctx context.Context, rt runtime.Runtime) ([]registry.Metadata, error) {
	all, err := rt.List(ctx)
	if err != nil {
		return nil, err
	}
	var found []registry.Metadata
	for _, s := range all {
		if m, ok := MetadataOf(s); ok && s.State == runtime.StateRunning && s.Expired == "" {
			found = append(found, m)
		}
	}
	return found, nil
}
