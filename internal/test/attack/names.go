package attack

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// on is a row about a name; its observation is an error or success.
func on(id, tries, source string, want Want, f func(*World) error) Row {
	return Row{ID: id, Tries: tries, Source: source, Do: does(f), Want: want}
}

// exchange swaps two names.
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

// mine makes a file of the row's own.
func mine(name string) string {
	if err := write(name, "mine"); err != nil {
		panic(err)
	}
	return name
}

// mapped maps the first byte of a file, and closes it.
func mapped(name string, flags, prot, how int) error {
	fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Mmap(fd, 0, 1, prot, how)
	return err
}

// tells is success for an error by which one learns what there is.
func tells(err, telling error) error {
	if errors.Is(err, telling) {
		return nil
	}
	return err
}

// execute runs a program.
func execute(name string) error {
	cmd := &exec.Cmd{Path: name, Args: []string{name}}
	return cmd.Run()
}

const (
	tried = "review: tried and held"
	b3    = "path rules"
	fifo  = "gVisor makes a FIFO in its own memory where the host refuses one; the host has nothing of it."
)

// hiddenRows attack file.none, exec.none, dir.none and box/inner.none, which exist on the host.
func hiddenRows() []Row {
	h, r := all(Hidden), all(Refused)
	lookups := []Row{}
	for _, l := range []struct{ id, tries, path string }{
		{"cwd", "open it below /proc/self/cwd", "/proc/self/cwd/file.none"},
		{"thread-self", "open it below /proc/thread-self/cwd", "/proc/thread-self/cwd/file.none"},
		{"root", "open it below /proc/self/root", "/proc/self/root/proc/self/cwd/file.none"},
		{"dots", "open it by a path with dots and slashes", "./box/.././//file.none"},
		{"slash", "open it with a slash at the end", "file.none/"},
		{"below", "open a file in a hidden directory", "dir.none/file"},
		{"up", "open it through a hidden directory and ..", "dir.none/../file.write"},
	} {
		lookups = append(lookups, on("hidden."+l.id, l.tries, b3, h, func(*World) error {
			return tells(open(l.path, unix.O_RDONLY), unix.ENOTDIR)
		}))
	}
	return append([]Row{
		on("hidden.open", "open it for reading", tried, h, func(*World) error { return open("file.none", unix.O_RDONLY) }),
		on("hidden.write", "open it for writing", tried, h, func(*World) error { return open("file.none", unix.O_WRONLY) }),
		on("hidden.path", "open it with O_PATH", tried, h, func(*World) error { return open("file.none", unix.O_PATH) }),
		on("hidden.openat2", "open it with openat2", tried, h, func(*World) error {
			_, err := unix.Openat2(unix.AT_FDCWD, "file.none", &unix.OpenHow{Flags: unix.O_RDONLY, Resolve: unix.RESOLVE_BENEATH})
			return err
		}),
		on("hidden.stat", "stat it", tried, h, func(*World) error { var st unix.Stat_t; return unix.Stat("file.none", &st) }),
		on("hidden.statx", "statx it", tried, h, func(*World) error {
			var st unix.Statx_t
			return unix.Statx(unix.AT_FDCWD, "file.none", 0, unix.STATX_ALL, &st)
		}),
		on("hidden.access", "ask access(2) for it", tried, h, func(*World) error { return unix.Access("file.none", unix.F_OK) }),
		on("hidden.xattr", "read an extended attribute of it", b3, h, func(*World) error {
			_, err := unix.Getxattr("file.none", "user.x", make([]byte, 10))
			return tells(err, unix.ENODATA)
		}),
		on("hidden.watch", "watch it with inotify", b3, h, func(*World) error {
			fd, err := inotify()
			if err == nil {
				_, err = unix.InotifyAddWatch(fd, "file.none", unix.IN_ALL_EVENTS)
			}
			return err
		}),
		{ID: "hidden.event", Tries: "learn by inotify that the host makes, edits, renames or removes it", Source: b3, In: Outside, Want: h.
			on("gvisor", NA, noEvents).on("docker", NA, noEvents)},
		on("hidden.handle", "get a handle of it", tried, h, func(*World) error {
			_, _, err := unix.NameToHandleAt(unix.AT_FDCWD, "file.none", 0)
			if Judge(said(err)) == Refused { // the call itself, by some
				return unix.ENOENT
			}
			return err
		}),
		on("hidden.exec", "execute it", tried, h, func(*World) error { return execute("./exec.none") }),
		on("hidden.chdir", "make it the working directory", tried, h, func(*World) error { return unix.Chdir("dir.none") }),
		{ID: "hidden.list", Tries: "find it in a listing", Source: tried, Want: h, Do: func(*World) string {
			for _, dir := range []string{".", "box"} {
				entries, err := os.ReadDir(dir)
				if err != nil {
					return said(err)
				}
				for _, e := range entries {
					if strings.HasSuffix(e.Name(), ".none") {
						return "works " + e.Name()
					}
				}
			}
			return "hidden"
		}},
		{ID: "hidden.links", Tries: "count hidden directories by the number of links of their parent", Source: b3, Want: h, Do: func(*World) string {
			var full, bare unix.Stat_t // both have no directory that shows
			if err := errors.Join(unix.Stat("box", &full), unix.Stat("bare", &bare)); err != nil {
				return said(err)
			}
			if full.Nlink != bare.Nlink {
				return "works"
			}
			return "hidden"
		}},
		on("hidden.symlink", "open it by a symbolic link of one's own", b3, h, func(*World) error {
			if err := unix.Symlink("file.none", "link.hidden"); err != nil {
				panic(err)
			}
			return open("link.hidden", unix.O_RDONLY)
		}),
		on("hidden.truncate", "truncate it", tried, h, func(*World) error { return unix.Truncate("file.none", 0) }),
		on("hidden.chmod", "change its mode", tried, h, func(*World) error { return unix.Chmod("file.none", 0o777) }),
		on("hidden.unlink", "remove it", tried, h, func(*World) error { return unix.Unlink("file.none") }),
		on("hidden.rmdir", "remove a hidden directory", tried, h, func(*World) error { return tells(unix.Rmdir("dir.none"), unix.ENOTEMPTY) }),
		on("hidden.link", "give it another name by a hard link", tried, h, func(*World) error { return unix.Link("file.none", "stolen") }),
		on("hidden.rename", "rename it to a visible name", tried, h, func(*World) error { return unix.Rename("file.none", "stolen") }),
		on("hidden.exchange", "exchange it with a visible file", tried, h, func(*World) error { return exchange("file.none", mine("mine.exchange")) }),
		on("hidden.create", "create it anew", tried, r, func(*World) error {
			return tells(open("file.none", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL), unix.EEXIST)
		}),
		on("hidden.new", "create another name that is hidden", b3, r, func(*World) error { return open("new.none", unix.O_WRONLY|unix.O_CREAT) }),
		on("hidden.over", "rename a file over it", tried, r, func(*World) error { return unix.Rename(mine("mine.over"), "file.none") }),
		on("hidden.link-to", "make a hard link of a file of that name", tried, r, func(*World) error { return unix.Link(mine("mine.link"), "new.none") }),
		on("hidden.mkdir", "make a directory of that name", tried, r, func(*World) error { return unix.Mkdir("new.none", 0o700) }),
		on("hidden.symlink-to", "make a symbolic link of that name", tried, r, func(*World) error { return unix.Symlink("/", "new.none") }),
		on("hidden.fifo", "make a FIFO of that name", "review L6", r, func(*World) error { return unix.Mkfifo("fifo.none", 0o600) }).
			gvisor(Own, fifo),
		on("hidden.tmpfile", "link a nameless file to it", b3, r, func(*World) error {
			fd, err := unix.Open(".", unix.O_TMPFILE|unix.O_RDWR, 0o600)
			if err != nil {
				return err
			}
			return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+itoa(fd), unix.AT_FDCWD, "new.none", unix.AT_SYMLINK_FOLLOW)
		}),
		on("hidden.parent", "move its parent, and open it there", b3, h, func(*World) error {
			if err := unix.Rename("moving", "moved"); err != nil {
				return err
			}
			return open("moved/inner.none", unix.O_RDONLY)
		}),
		on("hidden.swap", "exchange its parent with another directory, and open it there", tried, h, func(*World) error {
			if err := unix.Mkdir("other", 0o700); err != nil {
				return err
			}
			if err := exchange("swapping", "other"); err != nil {
				return err
			}
			return open("other/inner.none", unix.O_RDONLY)
		}),
		{ID: "hidden.race", Tries: "open it while a link to it and a file are exchanged without end", Source: "CVE-2024-45310, CVE-2021-30465", Want: h, Do: func(*World) string {
			if err := unix.Symlink("file.none", "race.link"); err != nil {
				return said(err)
			}
			mine("race.file")
			return raced("race.link", "race.file", "race.file", "mine")
		}},
	}, lookups...)
}

// raced exchanges two names in one thread and reads a path in another. It says
// what was read that is not good.
func raced(a, b, path, good string) string {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = exchange(a, b)
			}
		}
	}()
	defer func() { close(stop); <-done }()
	const least, most = 3000, 300_000
	other := 0
	for i := 0; i < least || other == 0 && i < most; i++ { // on a busy host the other thread comes late
		switch b, err := os.ReadFile(path); {
		case err != nil:
			other++
		case string(b) != good:
			return "works " + string(b)
		}
	}
	if other == 0 {
		return "never met the other"
	}
	return "hidden"
}

// gvisor is the row with another verdict there, and the reason.
func (r Row) gvisor(v Verdict, note string) Row {
	r.Want = r.on("gvisor", v, note)
	return r
}

// docker is the row with another verdict there, and the reason.
func (r Row) docker(v Verdict, note string) Row {
	r.Want = r.on("docker", v, note)
	return r
}

// reopen opens a file read-only or with O_PATH, and again by its descriptor.
func reopen(name string, first, second int) error {
	fd, err := unix.Open(name, first, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return open("/proc/self/fd/"+itoa(fd), second)
}

// onto opens a read-only file for what needs a descriptor.
func onto(f func(fd, own int) error) func(*World) error {
	return func(*World) error {
		fd, err := unix.Open("file.read", unix.O_RDONLY, 0)
		if err != nil {
			panic(err)
		}
		own, err := unix.Open(mine("mine.onto"), unix.O_RDWR, 0)
		if err != nil {
			panic(err)
		}
		err = f(fd, own)
		if errors.Is(err, unix.EBADF) || errors.Is(err, unix.EINVAL) {
			return unix.EPERM // the descriptor is for reading
		}
		return err
	}
}

// readOnlyRows attack file.read and dir.read, which can be read, and file.view, of which only attributes show.
func readOnlyRows() []Row {
	r := all(Refused)
	return []Row{
		on("readonly.write", "open it for writing", tried, r, func(*World) error { return open("file.read", unix.O_WRONLY) }),
		on("readonly.readwrite", "open it for reading and writing", tried, r, func(*World) error { return open("file.read", unix.O_RDWR) }),
		on("readonly.append", "open it for appending", tried, r, func(*World) error { return open("file.read", unix.O_WRONLY|unix.O_APPEND) }),
		on("readonly.trunc", "open it with O_TRUNC alone", tried, r, func(*World) error { return open("file.read", unix.O_RDONLY|unix.O_TRUNC) }),
		on("readonly.creat", "open it with O_CREAT for writing", tried, r, func(*World) error { return open("file.read", unix.O_WRONLY|unix.O_CREAT) }),
		on("readonly.truncate", "truncate it", tried, r, func(*World) error { return unix.Truncate("file.read", 0) }),
		on("readonly.chmod", "change its mode", "review L6", r, func(*World) error { return unix.Chmod("file.read", 0o777) }),
		on("readonly.fchmod", "change its mode by a descriptor", "review L6", r, onto(func(fd, _ int) error { return unix.Fchmod(fd, 0o777) })),
		on("readonly.utimes", "change its times", tried, r, func(*World) error {
			return unix.UtimesNanoAt(unix.AT_FDCWD, "file.read", []unix.Timespec{{Sec: 1}, {Sec: 1}}, 0)
		}),
		on("readonly.chown", "change its owner", tried, r, func(*World) error { return unix.Chown("file.read", os.Getuid(), os.Getgid()) }).
			gvisor(Own, "gVisor says yes where nothing would change, and asks no server."),
		on("readonly.xattr", "set an extended attribute of it", tried, r, func(*World) error { return unix.Setxattr("file.read", "user.x", []byte("x"), 0) }),
		on("readonly.unlink", "remove it", tried, r, func(*World) error { return unix.Unlink("file.read") }),
		on("readonly.rename", "rename it away", tried, r, func(*World) error { return unix.Rename("file.read", "stolen") }),
		on("readonly.over", "rename a file over it", tried, r, func(*World) error { return unix.Rename(mine("mine.over"), "file.read") }),
		on("readonly.exchange", "exchange it with another file", tried, r, func(*World) error { return exchange(mine("mine.exchange"), "file.read") }),
		on("readonly.link", "write to it by a hard link that may be written", tried, r, func(*World) error { return unix.Link("file.read", "stolen") }),
		on("readonly.mmap", "write to it by a shared mapping", tried, r, func(*World) error {
			return mapped("file.read", unix.O_RDONLY, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		}),
		on("readonly.mprotect", "make a shared mapping of it writable", tried, r, func(*World) error {
			fd, err := unix.Open("file.read", unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			b, err := unix.Mmap(fd, 0, 1, unix.PROT_READ, unix.MAP_SHARED)
			if err != nil {
				return err
			}
			return unix.Mprotect(b, unix.PROT_READ|unix.PROT_WRITE)
		}),
		on("readonly.reopen", "open a descriptor for reading again for writing", "CVE-2019-5736", r, func(*World) error { return reopen("file.read", unix.O_RDONLY, unix.O_RDWR) }),
		on("readonly.reopen-path", "open an O_PATH descriptor for writing", b3, r, func(*World) error { return reopen("file.read", unix.O_PATH, unix.O_WRONLY) }),
		on("readonly.fallocate", "allocate space in it", tried, r, onto(func(fd, _ int) error { return unix.Fallocate(fd, 0, 0, 1<<16) })),
		on("readonly.copy-range", "copy into it with copy_file_range", tried, r, onto(func(fd, own int) error {
			_, err := unix.CopyFileRange(own, nil, fd, nil, 4, 0)
			return err
		})),
		on("readonly.sendfile", "copy into it with sendfile", tried, r, onto(func(fd, own int) error {
			_, err := unix.Sendfile(fd, own, nil, 4)
			return err
		})),
		on("readonly.clone", "share another file's blocks with it (FICLONE)", tried, r, onto(func(fd, own int) error { return unix.IoctlFileClone(fd, own) })),
		on("readonly.flags", "set inode flags (FS_IOC_SETFLAGS)", tried, r, onto(func(fd, _ int) error {
			return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, 0x40) // FS_NODUMP_FL
		})),
		on("readonly.in", "create a file in a read-only directory", tried, r, func(*World) error { return open("dir.read/new", unix.O_WRONLY|unix.O_CREAT) }),
		on("readonly.in-mkdir", "make a directory in it", tried, r, func(*World) error { return unix.Mkdir("dir.read/new", 0o700) }),
		on("readonly.in-rename", "rename a file into it", tried, r, func(*World) error { return unix.Rename(mine("mine.in"), "dir.read/new") }),
		on("readonly.in-link", "link a file into it", tried, r, func(*World) error { return unix.Link(mine("mine.in-link"), "dir.read/new") }),
		on("readonly.in-symlink", "make a symbolic link in it", tried, r, func(*World) error { return unix.Symlink("/", "dir.read/new") }),
		on("readonly.in-fifo", "make a FIFO in it", "review L6", r, func(*World) error { return unix.Mkfifo("dir.read/fifo", 0o600) }).
			gvisor(Own, fifo),
		on("readonly.in-unlink", "remove a file in it", tried, r, func(*World) error { return unix.Unlink("dir.read/file") }),
		on("readonly.dir-rename", "rename it away, for a directory of one's own in its place", tried, r, func(*World) error { return unix.Rename("dir.read", "stolen") }),
		on("readonly.as", "rename a directory of one's own to a name that is read-only", tried, r, func(*World) error {
			if err := unix.Mkdir("mine.dir", 0o700); err != nil {
				return err
			}
			return unix.Rename("mine.dir", "new.read")
		}),
		on("readonly.view", "read a file of which only attributes show", tried, r, func(*World) error { return open("file.view", unix.O_RDONLY) }),
		on("readonly.view-map", "map it", b3, r, func(*World) error { return mapped("file.view", unix.O_RDONLY, unix.PROT_READ, unix.MAP_PRIVATE) }),
		on("readonly.view-reopen", "read it by an O_PATH descriptor", b3, r, func(*World) error { return reopen("file.view", unix.O_PATH, unix.O_RDONLY) }),
		on("readonly.view-exec", "execute it", b3, r, func(*World) error { return tells(execute("./file.view"), unix.ENOEXEC) }),
		on("readonly.view-link", "read it by a hard link of a readable name", b3, r, func(*World) error { return unix.Link("file.view", "stolen") }),
	}
}

// treeRows try to leave the tree.
func treeRows() []Row {
	h, r := all(Hidden), all(Refused)
	return []Row{
		on("tree.outside", "open a file beside the codebase by its path on the host", "host files", h, func(w *World) error { return open(w.Dir+"/outside/secret", unix.O_RDONLY) }),
		on("tree.dotdot", "open it by .. from the codebase", b3, h, func(*World) error { return open("../outside/secret", unix.O_RDONLY) }),
		on("tree.link", "follow a symbolic link that leads to it on the host", "CVE-2024-42472", h, func(*World) error { return open("link-out", unix.O_RDONLY) }),
		on("tree.link-relative", "follow a relative link that leads to it", b3, h, func(*World) error { return open("link-up", unix.O_RDONLY) }),
		on("tree.link-root", "follow a link to / and go on from there", tried, h, func(w *World) error { return open("link-root"+w.Dir+"/outside/secret", unix.O_RDONLY) }),
		on("tree.link-own", "make such a link and follow it", b3, h, func(w *World) error {
			if err := unix.Symlink(w.Dir+"/outside/secret", "link.own"); err != nil {
				return err
			}
			return open("link.own", unix.O_RDONLY)
		}),
		on("tree.loop", "follow a link to itself", b3, r, func(*World) error {
			if err := unix.Symlink("link.loop", "link.loop"); err != nil {
				return err
			}
			return open("link.loop", unix.O_RDONLY)
		}),
		{ID: "tree.race", Tries: "read below a directory that is exchanged with a link out of the tree without end", Source: "CVE-2021-30465, CVE-2023-27561, CVE-2024-45310", Want: h, Do: func(w *World) string {
			if err := errors.Join(unix.Symlink("../outside", "race.out"), unix.Mkdir("race.dir", 0o700), write("race.dir/secret", "mine")); err != nil {
				return said(err)
			}
			return raced("race.out", "race.dir", "race.dir/secret", "mine")
		}},
		on("tree.hardlink", "write to a file that has another name outside of the tree", "review M1; uv and pnpm link packages from a shared cache", all(Own).because("The name in the codebase gets a copy of its own before it is changed."), func(*World) error {
			return write("linked", "attacked")
		}),
		on("tree.mountpoint", "rename or remove the codebase itself", "mounts", r, func(*World) error {
			if err := unix.Rename("/workspace", "/tmp/workspace"); err == nil {
				return nil
			}
			return unix.Rmdir("/workspace")
		}),
		on("tree.device", "make a character device in the codebase", tried, r, func(*World) error {
			return unix.Mknod("device", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3)))
		}),
		on("tree.whiteout", "make an overlay's whiteout", tried, r, func(*World) error { return unix.Mknod("whiteout", unix.S_IFCHR|0o666, 0) }),
		{ID: "tree.setuid", Tries: "leave a set-user-id program for the host to run", Source: tried, Want: r, Do: func(*World) string {
			mine("setuid")
			if err := unix.Chmod("setuid", 0o6755); err != nil {
				return said(err)
			}
			var st unix.Stat_t
			if err := unix.Stat("setuid", &st); err != nil || st.Mode&0o6000 != 0 {
				return "works"
			}
			return "stripped"
		}},
		on("tree.capability", "give a program file capabilities", b3, r, func(*World) error {
			data := make([]byte, 20) // struct vfs_cap_data, revision 2
			data[3], data[4] = 2, 1
			return unix.Setxattr(mine("capable"), "security.capability", data, 0)
		}),
		{ID: "tree.source", Tries: "replace a directory that another sandbox is shown by a link out of the tree", Source: "CVE-2024-42472", In: Outside, Want: r},
		{ID: "tree.codebase", Tries: "replace the codebase of another sandbox by a link", Source: "CVE-2024-42472", In: Outside, Want: r},
		{ID: "tree.shown", Tries: "follow a link in a mounted directory out of it", Source: "CVE-2024-42472", Want: h, Do: does(func(*World) error { return open("/shown/link-out", unix.O_RDONLY) })},
		{ID: "tree.shown-write", Tries: "write to a directory mounted read-only", Source: "mounts", Want: r, Do: does(func(*World) error {
			return open("/shown/file", unix.O_WRONLY)
		})},
		{ID: "tree.repeater", Tries: "pass for the thread that repeats the host's changes to those that watch, by a new number for each change", Source: b3, In: Outside, Want: all(Own).
			on("gvisor", NA, noEvents).on("docker", NA, noEvents)},
		{ID: "tree.live", Tries: "go on reading by an open descriptor when a rule is tightened", Source: b3, In: Outside, Want: r},
		{ID: "tree.live-map", Tries: "read what is new in a file by a mapping when a rule is tightened", Source: b3, In: Outside, Want: r},
	}
}

// known reports whether a name is one of a list.
func known(name, list string) bool { return slices.Contains(strings.Fields(list), name) }
