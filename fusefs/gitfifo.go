package fusefs

import (
	"strings"

	"golang.org/x/sys/unix"
)

// A FIFO keeps a program that opens it waiting until somebody opens its other end: git on the host, and each prompt that asks it, would hang. So
// none that a sandbox has made or moved is in a git directory, or has a name that git opens in a working tree. Nobody can open a socket, so git's
// own are allowed (fsmonitor--daemon.ipc), and devices are refused everywhere.

const stallsGit = "git on the host would hang when it opens the FIFO"

// gitOpens are the beginnings of the names that git opens in each directory of a working tree.
var gitOpens = []string{".git", ".mailmap", ".lfsconfig"}

// stalls reports whether an object of the type typ would stall git on the host at e.
func (t *tree) stalls(e *entry, typ uint32) bool {
	if typ != unix.S_IFIFO || !t.rules.Checks() {
		return false
	}
	for _, name := range gitOpens {
		if len(e.name) >= len(name) && strings.EqualFold(e.name[:len(name)], name) {
			return true
		}
	}
	return t.isBelowGit(e.dir)
}
