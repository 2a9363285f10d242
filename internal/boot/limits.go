package boot

import (
	"time"
)

const (
	// stopGrace is how long processes have between SIGTERM and SIGKILL when a
	// sandbox is stopped, unless the request says otherwise.
	StopGrace = 2 * time.Second
	// killGrace is how long they may take before the tree is given up, for which
	// they may be waiting.
	KillGrace = 2 * time.Second
	// killLimit is how long the kernel may take to end what was killed.
	KillLimit = 10 * time.Second
)

// Within waits for done, up to limit.
func Within(limit time.Duration, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

// TreeLimit is how long a tree server may outlive its shim: it has to notice, and to
// write its audit log.
const TreeLimit = 2 * AuditLimit

// AuditLimit is how long a tree server that ends waits for its audit log.
const AuditLimit = 2 * time.Second
