package fusefs

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"golang.org/x/sys/unix"
)

// An action is one thing that one of several processes does to a tree.
type action struct {
	Who   int    // the process
	Do    string // the verb; see worker.do
	A, B  string // paths: "/x" from the round's root, "x" from the working directory, "#2/x" from what slot 2 holds
	Slot  int    // of open files, of that process
	Other int    // another slot
	Flags int
	Mode  uint32
	Off   int64
	Len   int64
	Byte  byte
}

func (a action) String() string {
	return fmt.Sprintf("%d: %-9s a=%.40q b=%.40q slot=%d other=%d flags=%#x mode=%#o off=%d len=%d byte=%d",
		a.Who, a.Do, a.A, a.B, a.Slot, a.Other, a.Flags, a.Mode, a.Off, a.Len, a.Byte)
}

const (
	workers = 3 // processes that share a tree
	slots   = 4 // open files in each of them
	minTime = 1 << 20
)

// A menu selects the actions of a round: some cannot be compared together. See the table of
// differences.
type menu struct {
	copied   bool // the mount is copied: the links of a directory are not told then
	links    bool // hard links: no locks, mappings and FIFOs then
	prealloc bool // fallocate that makes unwritten room: where data lies is not compared then
	hiding   bool // rules that could hide something, though nothing that there is: the links of a directory are not told then
	git      bool // some names are .git, of a mount on which these are the sandbox's own: times and links of the directories are not told then
	search   bool // modes let the owner do everything: a server that is not root reaches things by their names again
}

// verbs are the things to do, as often as is written, and when they may be.
var verbs = []struct {
	name   string
	weight int
	ok     func(menu) bool
}{
	{"open", 16, nil},
	{"close", 3, nil},
	{"dup", 1, nil},
	{"reopen", 3, nil},
	{"read", 6, nil},
	{"pread", 4, nil},
	{"write", 8, nil},
	{"pwrite", 5, nil},
	{"truncate", 3, nil},
	{"ftruncate", 3, nil},
	{"falloc", 3, nil},
	{"seek", 4, nil},
	{"copy", 3, nil},
	{"sendfile", 2, nil},
	{"fsync", 1, nil},
	{"mkdir", 7, nil},
	{"rmdir", 4, nil},
	{"unlink", 5, nil},
	{"rename", 9, nil},
	{"link", 6, func(m menu) bool { return m.links }},
	{"symlink", 3, nil},
	{"readlink", 2, nil},
	{"mknod", 2, func(m menu) bool { return !m.links }},
	{"chmod", 4, nil},
	{"fchmod", 2, nil},
	{"umask", 1, nil},
	{"utimes", 4, nil},
	{"futimes", 1, nil},
	{"stat", 6, nil},
	{"fstat", 4, nil},
	{"access", 3, nil},
	{"statfs", 1, nil},
	{"same", 1, nil},
	{"list", 3, nil},
	{"dirread", 3, nil},
	{"dirend", 2, nil},
	{"chdir", 2, nil},
	{"fchdir", 1, nil},
	{"getcwd", 1, nil},
	{"tmpfile", 1, nil},
	{"mmap", 2, func(m menu) bool { return !m.links }},
	{"mread", 2, func(m menu) bool { return !m.links }},
	{"mwrite", 2, func(m menu) bool { return !m.links }},
	{"munmap", 1, func(m menu) bool { return !m.links }},
	{"flock", 2, func(m menu) bool { return !m.links }},
	{"ofdlock", 2, func(m menu) bool { return !m.links }},
	{"lock", 2, func(m menu) bool { return !m.links }},
}

// actions returns n things to do.
func actions(seed uint64, m menu, n int) []action {
	r := rand.New(rand.NewPCG(seed, 4))
	var bag []string
	for _, v := range verbs {
		for range v.weight {
			if v.ok == nil || v.ok(m) {
				bag = append(bag, v.name)
			}
		}
	}
	as := make([]action, n)
	for i := range as {
		as[i] = action{
			Who: r.IntN(workers), Do: bag[r.IntN(len(bag))], A: randomName(r), B: randomName(r),
			Slot: r.IntN(slots), Other: r.IntN(slots), Mode: randomMode(r, m),
			Off: randomOffset(r), Len: randomOffset(r) % (1 << 16), Byte: byte(1 + r.IntN(250)),
		}
		if m.git {
			as[i].A, as[i].B = withGit(as[i].A), withGit(as[i].B)
		}
		as[i].Flags = randomFlags(r, m, as[i].Do)
		switch as[i].Do {
		case "symlink":
			as[i].B = pick(r, "a", "b", "a/b", ".", "missing", "c", "b/", strings.Repeat("l", 300))
		case "chdir":
			as[i].A = "/" + strings.TrimLeft(as[i].A, "#/0123456789")
		}
	}
	return as
}

// withGit returns the path p with ".git" for "d".
func withGit(p string) string {
	parts := strings.Split(p, "/")
	for i := range parts {
		if parts[i] == "d" {
			parts[i] = gitName
		}
	}
	return strings.Join(parts, "/")
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

// randomName returns a path. It uses few names, so that paths meet. No path leads more than one
// step above its start, and no path of a link leads up: a round stays in its directory.
func randomName(r *rand.Rand) string {
	var parts []string
	for n := 1 + r.IntN(100)*r.IntN(100)/4000; n > 0; n-- {
		switch c := r.IntN(100); {
		case c < 88:
			parts = append(parts, pick(r, "a", "b", "c", "d"))
		case c < 92:
			parts = append(parts, pick(r, "\xff\xfe", "new\nline", " ", "-rf", "*", "\\", "é", "e\u0301"))
		case c < 95:
			parts = append(parts, pick(r, strings.Repeat("n", 255), strings.Repeat("n", 256)))
		case c < 97:
			parts = append(parts, ".")
		case c < 98:
			parts = append(parts, "")
		default:
			parts = append(parts, "e")
		}
	}
	p := strings.TrimLeft(strings.Join(parts, "/"), "/")
	if chance(r, 5) {
		p += "/"
	}
	switch c := r.IntN(100); {
	case c < 3:
		return "/" + p + "/.."
	case c < 65:
		return "/" + p
	case c < 85:
		return p
	}
	return fmt.Sprintf("#%d/%s", r.IntN(slots), p)
}

func randomMode(r *rand.Rand, m menu) uint32 {
	// Set-id bits are not offered.
	if m.search {
		return pick[uint32](r, 0o700, 0o755, 0o777, 0o1777, 0o750, 0o711)
	}
	return pick[uint32](r, 0o644, 0o644, 0o755, 0o755, 0o700, 0o600, 0o777, 0o1777, 0o444, 0o555, 0, 0o200, 0o111, 0o066, 0o640)
}

func randomOffset(r *rand.Rand) int64 {
	switch r.IntN(8) {
	case 0:
		return 0
	case 1:
		return int64(r.IntN(10))
	case 2:
		return 4096 * int64(r.IntN(8))
	case 3:
		return int64(r.IntN(1 << 20))
	default:
		return int64(r.IntN(20_000))
	}
}

func randomFlags(r *rand.Rand, m menu, do string) int {
	flags := 0
	maybe := func(percent, flag int) {
		if chance(r, percent) {
			flags |= flag
		}
	}
	switch do {
	case "open", "reopen":
		flags = pick(r, unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR, unix.O_RDWR)
		maybe(45, unix.O_CREAT)
		maybe(15, unix.O_EXCL)
		maybe(20, unix.O_TRUNC)
		maybe(20, unix.O_APPEND)
		maybe(12, unix.O_DIRECTORY)
		maybe(10, unix.O_NOFOLLOW)
		maybe(8, unix.O_PATH)
		maybe(2, unix.O_SYNC)
		maybe(2, unix.O_DSYNC)
		maybe(8, unix.O_NOATIME)
		maybe(4, unix.O_DIRECT)
	case "tmpfile":
		flags = pick(r, unix.O_WRONLY, unix.O_RDWR, unix.O_RDONLY)
	case "falloc":
		flags = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
		if m.prealloc {
			flags = pick(r, 0, unix.FALLOC_FL_KEEP_SIZE, flags, unix.FALLOC_FL_ZERO_RANGE,
				unix.FALLOC_FL_ZERO_RANGE|unix.FALLOC_FL_KEEP_SIZE, unix.FALLOC_FL_PUNCH_HOLE)
		}
	case "seek":
		flags = pick(r, unix.SEEK_SET, unix.SEEK_CUR, unix.SEEK_END, unix.SEEK_HOLE, unix.SEEK_DATA, 99)
	case "copy":
		flags = r.IntN(4) // which of the offsets are given
	case "fsync":
		flags = r.IntN(2) // only the data
	case "rename":
		flags = pick(r, 0, 0, 0, unix.RENAME_NOREPLACE, unix.RENAME_EXCHANGE, unix.RENAME_EXCHANGE|unix.RENAME_NOREPLACE)
	case "link":
		flags = pick(r, 0, 0, unix.AT_SYMLINK_FOLLOW)
	case "mknod":
		flags = pick(r, unix.S_IFIFO, unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFREG, unix.S_IFCHR, unix.S_IFBLK, 0)
	case "utimes", "futimes":
		flags = r.IntN(32)
	case "stat", "access":
		flags = pick(r, 0, unix.AT_SYMLINK_NOFOLLOW)
	case "mmap":
		flags = r.IntN(4) // shared, writable
	case "flock":
		flags = pick(r, unix.LOCK_SH, unix.LOCK_EX, unix.LOCK_UN)
	case "ofdlock", "lock":
		flags = pick(r, unix.F_RDLCK, unix.F_WRLCK, unix.F_UNLCK) | r.IntN(2)<<8 // only ask
	}
	return flags
}
