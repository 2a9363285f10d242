// Package sandbox gives sandboxes to owners. Whose a sandbox is stands in its
// labels, and so in the state directory, where [Scan] finds it again.
package sandbox
