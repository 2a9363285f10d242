package service

import (
	"context"
	"errors"

	"wolffia/runtime"
	"wolffia/service/registry"
)

// metadataName is the metadata with the name of a sandbox that [Service.Named] has made.
const metadataName = "name"

// Named returns the id of a running sandbox of the owner: the one with that id, else the one
// with that name, which is made if there is none. One that is not running is started. A name
// is up to 63 letters, digits and, not first, any of ._-; another one is [runtime.ErrInvalid].
// The caller must be one that may use what belongs to the owner; one that may use all may
// also mean, by its id, a sandbox of another owner. Without a name it is the owner's own one: see
// [Owned.EnsureSandbox].
func (s *Service) Named(ctx context.Context, caller Caller, o registry.Owner, name string) (id string, err error) {
	// What is made counts for the caller's key. Calls of an MCP session lack the request's context.
	ctx = WithCaller(ctx, caller)
	if name == "" {
		m, _, err := s.Owned().EnsureSandbox(ctx, o, nil)
		return m.SandboxID, err
	}
	if !isName(name) {
		return "", runtime.Errorf(runtime.ErrInvalid, "sandbox %q: an id or a name is up to 63 letters, digits and, not first, any of ._-", name)
	}
	b, err := s.Get(ctx, caller, name)
	if errors.Is(err, runtime.ErrNotFound) {
		b, _, err = s.Create(ctx, &Params{Owner: o, Metadata: map[string]string{metadataName: name}, Key: "named " + name})
	}
	if err != nil {
		return "", err
	}
	if b.State != runtime.StateRunning {
		if err := s.Start(ctx, caller, b.ID); err != nil && !errors.Is(err, runtime.ErrConflict) { // it was started meanwhile
			return "", err
		}
	}
	return b.ID, nil
}

// isName reports whether a text has the form of a sandbox's name.
func isName(s string) bool {
	if s == "" || len(s) > 63 {
		return false
	}
	for i, c := range s {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', i > 0 && (c == '.' || c == '_' || c == '-'):
		default:
			return false
		}
	}
	return true
}
