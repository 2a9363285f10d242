// Package sandbox gives sandboxes to owners.
//
// A [SandboxDriver] makes sandboxes and works in them, whoever asks; [NewDriver]
// makes one of any runtime. What it does in a sandbox is done by processes there:
// its shell, its files and its git obey the same rules as everything else in it,
// and see nothing else.
//
// Whose a sandbox is stands in its labels, and so in the state directory, where
// [Scan] finds it again.
package sandbox
