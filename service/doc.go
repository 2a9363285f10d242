// Package service gives each owner at most one sandbox, found again after a crash of any
// process involved.
//
//	Service ──► SandboxDriver ──► runtime.RuntimeWithSession
//	   └──────► registry.Registry
//
// A [SandboxDriver] creates sandboxes and works in them, for any caller; a [Driver]
// is one over a runtime. Its commands, file accesses and git run as processes in the
// sandbox, under the same rules as any other. A [Service] takes an owner with every
// call and refuses access to the sandboxes of other owners.
//
// The labels of a sandbox record its owner, in the state directory, where [Scan]
// reads them. The registry is an index of that. It alone knows which sandboxes are
// half created or half destroyed: a sandbox is reserved there from the first step to
// the last, so that the next service destroys what a crash has left.
package service
