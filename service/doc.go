// Package service gives sandboxes to owners: one to each, found again whatever
// was killed in between.
//
//	Service ──► SandboxDriver ──► runtime.RuntimeWithSession
//	   └──────► registry.Registry
//
// A [SandboxDriver] makes sandboxes and works in them, whoever asks; [NewDriver]
// makes one of any runtime. What it does in a sandbox is done by processes there:
// its shell, its files and its git obey the same rules as everything else in it,
// and see nothing else. A [Service] has an owner with every call, and lets nobody
// at what is not theirs.
//
// Whose a sandbox is stands in its labels, and so in the state directory, where
// [Scan] finds it again. The registry is an index of that, and knows besides what
// is only half made or half destroyed: from the first step to the last the
// sandbox is reserved there, so that what a crash leaves is destroyed by the next
// service, and never taken for a sandbox.
package service
