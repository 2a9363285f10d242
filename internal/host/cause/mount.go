package cause

import (
	"slices"
	"strings"
)

// A mount is a line of /proc/self/mountinfo (proc_pid_mountinfo(5)).
type mount struct {
	id, parent, point, fstype, source string
	options                           []string // of the mount and of the file system
}

// MountTable are the mounts of a process, in the kernel's order; nil if /proc is not mounted.
type MountTable []mount

// parseMounts parses /proc/self/mountinfo. It leaves out what is malformed.
func parseMounts(mountinfo string) (all MountTable) {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		b, a := strings.Fields(before), strings.Fields(after)
		if len(b) < 6 || len(a) < 2 {
			continue
		}
		m := mount{id: b[0], parent: b[1], point: unescape.Replace(b[4]), fstype: a[0], source: unescape.Replace(a[1])}
		m.options = strings.Split(b[5], ",")
		if len(a) > 2 {
			m.options = append(m.options, strings.Split(a[2], ",")...)
		}
		all = append(all, m)
	}
	return all
}

// proc returns the topmost mount of /proc.
func (ms MountTable) proc() (top mount) {
	for _, m := range ms {
		if m.point == "/proc" && m.fstype == "proc" {
			top = m
		}
	}
	return top
}

// belowProc returns what is mounted over parts of /proc. What is mounted on a directory that the
// kernel keeps empty for it hides nothing.
func (ms MountTable) belowProc() (all []mount) {
	top := ms.proc()
	for _, m := range ms {
		if m.parent == top.id && strings.HasPrefix(m.point, "/proc/") && m.point != "/proc/sys/fs/binfmt_misc" {
			all = append(all, m)
		}
	}
	return all
}

// chroot reports whether the root of the process is no mount, which only a chroot's can be.
func (ms MountTable) chroot() bool {
	return ms != nil && !slices.ContainsFunc(ms, func(m mount) bool { return m.point == "/" })
}

// at returns the mount that an absolute path is on.
func (ms MountTable) at(path string) (found mount) {
	for _, m := range ms {
		dir := strings.TrimSuffix(m.point, "/") + "/"
		if strings.HasPrefix(path+"/", dir) && len(m.point) >= len(found.point) {
			found = m
		}
	}
	return found
}

func (m mount) has(option string) bool { return slices.Contains(m.options, option) }

// hidepid reports whether a /proc hides processes of others; proc(5).
func (m mount) hidepid() bool {
	return slices.ContainsFunc(m.options, func(o string) bool {
		value, is := strings.CutPrefix(o, "hidepid=")
		return is && value != "0" && value != "off"
	})
}

func (m mount) lxcfs() bool { return m.fstype == "fuse.lxcfs" }

// network reports whether a file system is another machine's.
func (m mount) network() bool {
	return slices.Contains([]string{"nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "ceph", "afs", "beegfs"}, m.fstype)
}

// drive reports whether a file system is a drive of Windows in WSL.
func (m mount) drive() bool {
	return m.fstype == "drvfs" || m.fstype == "9p" && slices.ContainsFunc(m.options, func(o string) bool {
		return strings.Contains(o, "aname=drvfs")
	})
}
