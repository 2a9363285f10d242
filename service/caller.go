package service

import "wolffia/service/registry"

// A Caller is the party that a request acts for. The zero value may use nothing.
type Caller struct {
	// All may use the sandboxes of every owner, and those without an owner.
	All bool
	// Owner, without All, is the owner whose sandboxes the caller may use.
	Owner registry.Owner
}

// May reports whether the caller may use what belongs to o. The zero Owner means that no
// owner has it.
func (c Caller) May(o registry.Owner) bool {
	return c.All || c.Owner == o && o.Validate() == nil
}
