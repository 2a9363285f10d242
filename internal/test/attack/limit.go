package attack

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// until does something again and again until it fails, and says how.
func until(most int, f func(i int) error) string {
	for i := range most {
		if err := f(i); err != nil {
			return said(err)
		}
	}
	return "works " + itoa(most) + " times"
}

// Sizes that the limits of the sandboxes in attacktest are made for.
const (
	LimitPIDs   = 40
	LimitMemory = 128 << 20
	LimitDisk   = 5 << 20
)

func limitRows() []Row {
	b := all(Bounded)
	return []Row{
		{ID: "limit.fork", Tries: "start processes without end, with `--pids`", Source: "fork bomb", In: Outside, Want: b},
		{ID: "limit.memory", Tries: "take memory without end, with `--memory`", Source: "memory bomb", In: Outside, Want: b.on("gvisor", Ended, "What takes too much there is gVisor's kernel itself: the sandbox ends, and says why.")},
		{ID: "limit.files", Tries: "fill memory with files, with `--memory`", Source: "memory bomb", In: Outside, Want: b},
		{ID: "limit.disk", Tries: "fill the disk, with `--disk`", Source: "disk fill", In: Outside, Want: b},
		{ID: "limit.disk-append", Tries: "fill it by appending in turn through two names of a file", Source: "review H4", In: Outside, Want: b},
		{ID: "limit.disk-sparse", Tries: "fill it by a hole that is written later", Source: "disk fill", In: Outside, Want: b},
		{ID: "limit.tree-memory", Tries: "have the tree server remember long paths of removed files", Source: "review H5", In: Outside, Want: b},
		{ID: "limit.output", Tries: "print without end to a caller that keeps a MiB", Source: "output flood", In: Outside, Want: b},
		{ID: "limit.rlimits", Tries: "catch the next command by ptrace before its limits are set", Source: "review M4", In: Outside, Want: all(Refused).on("bwrap/root", NA, "Control groups and an engine have the limits before the command begins.").on("docker", NA, "")},
		{ID: "limit.descriptors", Tries: "open descriptors without end", Source: "exhaustion", In: Alone, Want: b, Do: func(*World) string {
			// The last few of its hard limit: to open all takes gVisor a minute.
			var l unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
				return said(err)
			}
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: l.Max, Max: l.Max}); err != nil || l.Max > 1<<30 {
				return "works: " + said(err)
			}
			return until(100, func(int) error {
				_, err := unix.FcntlInt(0, unix.F_DUPFD, int(l.Max)-10)
				return err
			})
		}},
		{ID: "limit.raise", Tries: "raise a hard limit", Source: "setrlimit(2)", Want: all(Refused), Do: does(func(*World) error {
			var l unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
				return err
			}
			return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: l.Max + 1, Max: l.Max + 1})
		})},
		Row{ID: "limit.watches", Tries: "make inotify instances without end", Source: "exhaustion: they are counted for the user, not the sandbox", Want: b, Do: func(*World) string {
			var fds []int
			said := until(1<<12, func(int) error {
				fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
				fds = append(fds, fd)
				return err
			})
			for _, fd := range fds { // others of the same user want some
				_ = unix.Close(fd)
			}
			return said
		}}.gvisor(Allowed, "They are in gVisor's own memory, which `--memory` bounds."),
		{ID: "limit.deep", Tries: "make 2000 directories in one another", Source: "exhaustion", In: Alone, Want: b, Do: func(*World) string {
			const name, deep = "d", 2000
			made := 0
			said := until(deep, func(int) error {
				err := unix.Mkdir(name, 0o700)
				if err == nil {
					made++
					err = unix.Chdir(name)
				}
				return err
			})
			for range made {
				if unix.Chdir("..") != nil || unix.Rmdir(name) != nil {
					return "cannot be removed"
				}
			}
			if strings.HasPrefix(said, "works") {
				return "bounded"
			}
			return said
		}},
		{ID: "limit.name", Tries: "make names as long as can be, and longer", Source: "exhaustion", Want: b, Do: does(func(*World) error {
			if err := write(strings.Repeat("n", 255), "x"); err != nil {
				return err
			}
			return write(strings.Repeat("n", 256), "x")
		})},
		{ID: "limit.sysv", Tries: "make System V memory without end", Source: "exhaustion", In: Alone, Want: b, Do: func(*World) string {
			return until(1<<16, func(int) error {
				_, err := unix.SysvShmGet(0, 4096, 0o600|unix.IPC_CREAT)
				return err
			})
		}},
		{ID: "limit.zombies", Tries: "leave dead children for PID 1 to reap", Source: "exhaustion", In: Outside, Want: b},
		{ID: "limit.daemon", Tries: "outlive the sandbox as a daemon in a session of its own", Source: "processes", In: Outside, Want: all(Ended)},
		{ID: "limit.timeout", Tries: "outlive the time-out of a command by ignoring signals, in a session of its own", Source: "processes", In: Outside, Want: all(Ended)},
		{ID: "limit.stopped", Tries: "outlive the sandbox as a stopped process", Source: "processes", In: Outside, Want: all(Ended)},
	}
}

// hold keeps what a row has taken until its input ends.
func hold([]string) int {
	_, _ = os.Stdin.Read(make([]byte, 1))
	return 0
}

func init() {
	roles["hold"] = hold
	roles["forks"] = func([]string) int {
		report(until(10*LimitPIDs, func(int) error { _, err := start("wait"); return err }))
		_ = unix.Kill(-1, unix.SIGKILL)
		return 0
	}
	roles["memory"] = func([]string) int {
		b := make([]byte, 4*LimitMemory)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		report("works")
		return 0
	}
	roles["files"] = func([]string) int {
		chunk := make([]byte, 1<<20)
		dirs := []string{"/tmp", "/dev/shm", "/var/tmp", os.Getenv("HOME")}
		if os.Getuid() == 0 {
			dirs = dirs[:2] // the others are an image's, on the disk
		}
		for _, dir := range dirs {
			f, err := os.OpenFile(dir+"/fill", os.O_WRONLY|os.O_CREATE, 0o600)
			if err != nil {
				report(said(err))
				return 0
			}
			said := until(4*LimitMemory>>20, func(int) error { _, err := f.Write(chunk); return err })
			_, _ = f.Close(), os.Remove(dir+"/fill")
			if strings.HasPrefix(said, "works") {
				report(said + " in " + dir)
				return 0
			}
		}
		report("bounded")
		return 0
	}
	roles["disk"] = func([]string) int {
		report(fill(os.O_WRONLY|os.O_CREATE, 1<<16, "fill"))
		return 0
	}
	roles["disk-append"] = func([]string) int {
		if err := errors.Join(write("one", "x"), os.Link("one", "two")); err != nil {
			report(said(err))
			return 0
		}
		report(fill(os.O_WRONLY|os.O_APPEND, 1<<16, "one", "two"))
		return 0
	}
	roles["disk-sparse"] = func([]string) int {
		f, err := os.OpenFile("sparse", os.O_WRONLY|os.O_CREATE, 0o600)
		if err == nil {
			err = f.Truncate(10 * LimitDisk)
		}
		if err != nil {
			report(said(err))
			return 0
		}
		chunk := make([]byte, 1<<16)
		chunk[0] = 1
		report(until(10*LimitDisk>>16, func(i int) error { _, err := f.WriteAt(chunk, int64(i)<<16); return err }))
		return 0
	}
	roles["orphans"] = func([]string) int {
		const deep, files = 200, 1000
		for range deep {
			name := strings.Repeat("d", 250)
			if err := errors.Join(os.Mkdir(name, 0o700), os.Chdir(name)); err != nil {
				break // as deep as can be
			}
		}
		report(until(files, func(i int) error {
			_, err := unix.Open("f", unix.O_RDWR|unix.O_CREAT, 0o600)
			if err == nil {
				err = unix.Unlink("f")
			}
			return err
		}))
		return hold(nil)
	}
	roles["flood"] = func([]string) int {
		line := []byte(strings.Repeat("x", 1<<16))
		for range 64 << 4 {
			if _, err := os.Stdout.Write(line); err != nil {
				return 1
			}
		}
		return 0
	}
	roles["catch"] = catch
	roles["count"] = func(args []string) int { // processes with such arguments
		n := 0
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, f := range files {
			if b, _ := os.ReadFile(f); string(b) == strings.Join(args, "\x00")+"\x00" {
				n++
			}
		}
		report(itoa(n))
		return 0
	}
	roles["zombies"] = func([]string) int {
		for range 100 {
			if _, err := start("true"); err != nil {
				report(said(err))
				return 0
			}
		}
		report("works")
		return 0
	}
	roles["stop"] = func([]string) int {
		report("ready")
		_ = unix.Kill(unix.Getpid(), unix.SIGSTOP)
		return 0
	}
	roles["dial"] = func(args []string) int {
		report(said(dial("unix", args[0])))
		return 0
	}
	roles["listen"] = func([]string) int {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 1
		}
		report(itoa(l.Addr().(*net.TCPAddr).Port))
		return hold(nil)
	}
	roles["reader"] = func(args []string) int {
		f, err := os.Open(args[0])
		if err == nil {
			_, err = f.ReadAt(make([]byte, 10), 0)
		}
		if err != nil {
			return 1
		}
		report("ready")
		hold(nil)
		_, err = f.ReadAt(make([]byte, 10), 0)
		report(closed(said(err)))
		return 0
	}
	roles["mapper"] = func(args []string) int {
		f, err := os.Open(args[0])
		if err != nil {
			return 1
		}
		b, err := unix.Mmap(int(f.Fd()), 0, 1<<15, unix.PROT_READ, unix.MAP_SHARED)
		if err != nil || b[0] != 'c' {
			return 1
		}
		report("ready")
		hold(nil)
		debug.SetPanicOnFault(true)
		defer func() {
			if recover() != nil {
				report("refused")
			}
		}()
		if b[0] == 'c' && b[1<<14] == 'c' {
			report("works")
		}
		return 0
	}
}

// report prints an observation of a role.
func report(observation string) { _, _ = os.Stdout.WriteString(observation + "\n") }

// fill appends to files in turn until it fails, or has written ten times what it may.
func fill(flags, chunk int, names ...string) string {
	var files []*os.File
	for _, n := range names {
		f, err := os.OpenFile(n, flags, 0o600)
		if err != nil {
			return said(err)
		}
		files = append(files, f)
	}
	b := make([]byte, chunk)
	return until(10*LimitDisk/chunk, func(i int) error {
		_, err := files[i%len(files)].Write(b)
		return err
	})
}

// catch attaches to each new process of PID 1's, and says whether one had not its
// limit on processes yet.
func catch([]string) int {
	report("ready")
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		entries, _ := os.ReadDir("/proc")
		for _, e := range entries {
			pid := 0
			for _, c := range e.Name() {
				if c < '0' || c > '9' {
					pid = 0
					break
				}
				pid = pid*10 + int(c-'0')
			}
			if pid <= 1 || pid == os.Getpid() || status(e.Name(), "PPid") != "1" {
				continue
			}
			if _, err := sys(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0); err != nil {
				continue
			}
			var l unix.Rlimit
			err := unix.Prlimit(pid, unix.RLIMIT_NPROC, nil, &l)
			if err == nil && l.Max > LimitPIDs*2 {
				report("works " + itoa(int(l.Max)))
				return 0
			}
			_, _ = sys(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(pid), 0, 0)
		}
	}
	report("refused")
	return 0
}
