// Package service gives owners sandboxes, found again after a crash of any process involved.
//
//	Service ──► SandboxDriver: a Fleet ──► Runtime
//	   └──────► registry.Registry
//
// A [Fleet] creates sandboxes and works in them. Labels in the state directory say whose they are. Its commands, file
// accesses and git run as processes in the sandbox, under the same rules as any other. It is a [SandboxDriver]: a
// [Service] over one limits it to one sandbox for an owner, takes the owner with every call, and refuses access to the
// sandboxes of other owners.
//
// The labels of a sandbox record its owner, where [Scan] reads them. The registry is an index of that. It alone knows
// which sandboxes are half created or half destroyed: a sandbox is reserved there from the first step to the last, so
// that the next service destroys what a crash has left.
package service
