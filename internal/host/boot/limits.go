package boot

import "time"

const (
	// StopGrace is how long processes have between SIGTERM and SIGKILL when a sandbox is
	// stopped, unless the request says otherwise.
	StopGrace = 2 * time.Second
	// KillGrace is how long killed processes may take to end before the tree is
	// unmounted: they may be waiting for it.
	KillGrace = 2 * time.Second
	// KillLimit is how long the kernel may take to end killed processes.
	KillLimit = 10 * time.Second
	// AuditLimit is how long a tree server that ends waits for its audit log.
	AuditLimit = 2 * time.Second
	// TreeLimit is how long a tree server may outlive its shim: it has to notice, and to
	// write its audit log.
	TreeLimit = 2 * AuditLimit
	// StatsLimit is how long the tree server may take to return its TreeStats, or to flush
	// its audit log.
	StatsLimit = 2 * time.Second
	// RulesLimit is how long it may take until new rules are in force: the kernel has to
	// drop what the old ones allowed.
	RulesLimit = 30 * time.Second
	// EndLimit is how long an engine may take to end and remove a sandbox.
	EndLimit = 30 * time.Second
	// ImageLimit is how long an engine may take to download an image.
	ImageLimit = 30 * time.Minute
	// LostLimit is how long an engine may take to list its sandboxes.
	LostLimit = 10 * time.Second
)

// Within waits until done is closed, up to limit, and reports whether it is.
func Within(limit time.Duration, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}
