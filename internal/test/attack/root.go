package attack

import "strings"

// The reasons of differences.
const (
	itsOwn    = "Root inside has Docker's capabilities without MKNOD and NET_RAW, for the sandbox's own files, users and processes: decision 18."
	itsImage  = "The root directory is an image's, with changes of the sandbox's own."
	itsProc   = "It is the /proc of gVisor's kernel, which this sandbox alone has."
	itsSystem = "Over the host's own system it has what packages ship and all may read, users of the system among it, and changes of its own: nothing reaches the host."
	itsPID1   = "It can only harm its own sandbox; no memory or descriptor of PID 1 is reached."
	itsChown  = "gVisor asks the host for root inside."
)

// rootCells are the cells of sandboxes with root inside that differ from those of the same backend
// without, by row.
var rootCells = map[string]struct {
	verdict Verdict
	note    string
	gvisor  bool // of gVisor only
}{
	"call.chroot":    {Allowed, itsOwn, false},
	"call.setuid":    {Allowed, itsOwn, false},
	"call.setgid":    {Allowed, itsOwn, false},
	"call.setgroups": {Allowed, itsOwn, false},
	"call.capset":    {Allowed, itsOwn, false},
	"self.effective": {Allowed, itsOwn, false},
	"self.permitted": {Allowed, itsOwn, false},
	"self.bounding":  {Allowed, itsOwn, false},
	"self.uid":       {Allowed, itsOwn, false},

	"host.nosuid":  {Hidden, itsImage, false},
	"host.usr":     {Allowed, itsImage, false},
	"host.etc":     {Allowed, itsImage, false},
	"host.usr-bin": {Hidden, itsImage, false},
	"net.resolv":   {Allowed, "An image's resolv.conf names 127.0.0.1.", false},

	"pid1.write-oom_score_adj":   {Allowed, itsPID1, false},
	"pid1.write-coredump_filter": {Allowed, itsPID1, false},

	"readonly.chown":  {Refused, itsChown, true},
	"proc.sysrq":      {Allowed, itsProc, true},
	"proc.pid_max":    {Allowed, itsProc, true},
	"proc.hostname":   {Allowed, itsProc, true},
	"proc.overcommit": {Allowed, itsProc, true},
	"proc.ip_forward": {Allowed, itsProc, true},
	"proc.shmmax":     {Allowed, itsProc, true},
	"proc.randomize":  {Allowed, itsProc, true},
}

// hostCells are those of root inside over the host's own system that differ from those over an image.
var hostCells = map[string]struct {
	verdict Verdict
	note    string
}{
	"host.passwd":  {Allowed, itsSystem},
	"host.nosuid":  {Refused, ""},
	"host.usr-bin": {Allowed, itsSystem},
}

// linuxRootCells are those of bubblewrap only, where PID 1 is a process of the host's kernel.
var linuxRootCells = map[string]Verdict{
	"pid1.fds": Allowed, "pid1.write-clear_refs": Allowed, "pid1.write-autogroup": Allowed,
}

// withRoot returns rows with the cells of root inside.
func withRoot(groups []Group) []Group {
	for _, g := range groups {
		for i := range g.Rows {
			r := &g.Rows[i]
			cell, differs := rootCells[r.ID]
			for _, backend := range Backends {
				if host, differs := hostCells[r.ID]; differs && strings.HasSuffix(backend, OverHost) {
					r.Want = r.on(backend, host.verdict, host.note)
				}
				if !strings.HasSuffix(backend, WithRoot) {
					continue
				}
				bwrap := strings.HasPrefix(backend, "bwrap")
				if differs && !(bwrap && cell.gvisor) {
					r.Want = r.on(backend, cell.verdict, cell.note)
				}
				if v, ok := linuxRootCells[r.ID]; ok && bwrap {
					r.Want = r.on(backend, v, itsPID1)
				}
			}
		}
	}
	return groups
}
