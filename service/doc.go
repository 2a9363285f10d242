// Package service gives owners sandboxes, found again after a crash of any process involved.
//
//	Service ──► Runtime
//	   └──────► registry.Registry
//
// A [Service] creates sandboxes and works in them for a [Caller], whom it refuses those of other owners. Its commands,
// file accesses and git run as processes in the sandbox, under the same rules as any other. An owner has any number of
// sandboxes, and at most one of its own, which [Owned.CreateSandbox] makes. All are created on one path, and each
// with a key is locked by that: an idempotency key, or the empty one for the owner's own.
//
// The labels of a sandbox record its owner, where [Scan] reads them. The registry is an index of owners' own sandboxes.
// It alone knows which of them are half created or half destroyed: one is reserved there from the first step to the
// last, so that the next service destroys what a crash has left.
package service
