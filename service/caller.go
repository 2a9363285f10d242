package service

import (
	"context"

	"wolffia/runtime/launch"
	"wolffia/service/registry"
)

// A Caller is the party that a request acts for. The zero value may use nothing.
type Caller struct {
	// All may use the sandboxes of every owner, and those without an owner.
	All bool
	// Owner, without All, is the owner whose sandboxes the caller may use.
	Owner registry.Owner
	// Key is the name of the API key that admitted the request; empty: it needed none.
	Key string
}

// May reports whether the caller may use what belongs to o. The zero Owner means that no
// owner has it.
func (c Caller) May(o registry.Owner) bool {
	return c.All || c.Owner == o && o.Validate() == nil
}

// Caller returns the caller for whom a request acts that has a token of the sandbox. Its requests
// count as those of the API key that has created the sandbox.
func (b *Sandbox) Caller() Caller {
	return Caller{Owner: b.Owner, All: b.Owner == registry.Owner{}, Key: b.Labels[launch.LabelKey]}
}

// anyone is the owner for whom a caller acts that may use all sandboxes and names no owner.
var anyone = registry.Owner{OrganizationID: "local", ProjectID: "mcp", UserID: "default"}

// Subject returns the owner for whom the caller acts if a request names none.
func (c Caller) Subject() registry.Owner {
	if c.All {
		return anyone
	}
	return c.Owner
}

type callerKey struct{}

// WithCaller returns a context of requests that act for the caller.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the caller of WithCaller, or the zero Caller, who may use nothing.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}
