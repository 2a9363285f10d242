package attack

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// absent is a row about paths: none of them may exist with content.
func absent(id, tries, source string, want Want, paths func(w *World) []string) Row {
	return Row{ID: "host." + id, Tries: tries, Source: source, Want: want, Do: func(w *World) string {
		for _, p := range paths(w) {
			if entries, err := os.ReadDir(p); err == nil && len(entries) == 0 {
				continue // an empty place to mount on
			}
			if _, err := os.Lstat(p); err == nil && !(w.OverHost && shipped(p)) {
				return "works " + p
			}
		}
		return "hidden"
	}}
}

// shipped are names that packages make, with nothing secret in them and below.
func shipped(name string) bool {
	if slices.Contains([]string{"/etc/shadow-", "/etc/sudoers", "/etc/security/opasswd", "/etc/krb5.keytab", "/etc/machine-id", "/root", "/home", "/boot", "/srv", "/mnt"}, name) {
		return false
	}
	ok := true
	_ = filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			b, _ := os.ReadFile(path)
			text, hash := string(b), strings.Contains(d.Name(), "shadow")
			ok = ok && !strings.Contains(text, "PRIVATE KEY-----") && !(hash && strings.Contains(text, ":$")) && !strings.HasPrefix(d.Name(), "ssh_host_")
		}
		return err
	})
	return ok
}

func paths(all ...string) func(*World) []string { return func(*World) []string { return all } }

// writeIn is a row about directories in which no file may be made.
func writeIn(id, tries, source string, dirs ...string) Row {
	return Row{ID: "host." + id, Tries: tries, Source: source, Want: all(Refused), Do: func(*World) string {
		for _, d := range dirs {
			if err := write(d+"/new-file", "x"); err == nil {
				return "works " + d
			} else if v := Judge(said(err)); v != Refused && v != Hidden {
				return said(err) + " " + d
			}
		}
		return "refused"
	}}
}

func hostRows() []Row {
	h, r := all(Hidden), all(Refused)
	return []Row{
		absent("tmp", "find the host's temporary files", "host files", h, func(w *World) []string { return []string{w.Dir, filepath.Dir(w.Dir)} }),
		absent("shadow", "read the host's passwords", "host files", h, paths("/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/sudoers", "/etc/security/opasswd")),
		absent("keys", "read the host's keys and tokens", "host files", h, paths("/etc/ssh", "/etc/ssl/private", "/etc/krb5.keytab", "/etc/machine-id", "/etc/wireguard", "/etc/kubernetes", "/etc/docker", "/etc/letsencrypt", "/etc/NetworkManager", "/var/lib/dbus/machine-id")),
		absent("homes", "read somebody's home directory", "host files", h, paths("/root", "/home/.ssh", "/home/.aws")),
		absent("system", "find the host's logs, spools, databases and boot files", "host files", h, paths("/boot", "/srv", "/media", "/mnt", "/opt", "/lost+found", "/var/log", "/var/lib/systemd", "/var/lib/apt", "/var/spool", "/var/cache/apt", "/var/run/utmp", "/run/user", "/run/systemd", "/run/udev", "/run/lock")),
		absent("cloud", "find credentials of clusters and clouds", "CDK, deepce", h, paths("/var/run/secrets", "/run/secrets", "/.dockerinit", "/run/.containerenv", "/var/lib/kubelet", "/etc/cni", "/var/lib/cloud", "/var/lib/docker", "/var/lib/containerd")),
		{ID: "host.home", Tries: "find anything in the caller's own home", Source: "host files", Want: all(Empty), Do: func(*World) string {
			entries, err := os.ReadDir(os.Getenv("HOME"))
			if err != nil {
				return said(err)
			}
			for _, e := range entries {
				if e.Name() != leftName {
					return "works " + e.Name()
				}
			}
			return "empty"
		}},
		{ID: "host.passwd", Tries: "learn the host's users", Source: "host files", Want: h, Do: func(*World) string {
			b, err := os.ReadFile("/etc/passwd")
			if err != nil {
				return said(err)
			}
			if n := strings.Count(string(b), "\n"); n > 3 {
				return "works " + itoa(n)
			}
			return "hidden"
		}},
		{ID: "host.sockets", Tries: "find a socket in the file system", Source: "review H6; docker.sock", Want: h, Do: sockets},
		absent("engine", "find the socket of an engine", "CDK docker-sock", h, paths("/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/podman/podman.sock", "/run/containerd", "/run/docker")),
		absent("runsc", "find runsc's own sockets and state", "gVisor", h, paths("/run/runsc", "/var/run/runsc", "/run/user/0")),
		absent("dbus", "find the sockets of D-Bus, systemd, X11, agents", "sockets", h, func(w *World) []string {
			return []string{"/run/dbus/system_bus_socket", "/run/user/" + itoa(w.UID) + "/bus", "/run/systemd/private", "/tmp/.X11-unix", "/tmp/ssh-agent", "/run/nscd/socket", "/run/user/" + itoa(w.UID) + "/gnupg", "/run/user/" + itoa(w.UID) + "/keyring"}
		}),
		absent("nix", "reach the daemon of Nix or Guix", "review H6", h, paths("/nix/var", "/gnu/var", "/var/guix")),
		Row{ID: "host.nosuid", Tries: "gain rights by a set-user-id program or device in what is shown of the host", Source: "CDK finds su, mount, passwd, ...", Want: r, Do: func(*World) string {
			for _, dir := range []string{"/usr", "/bin", "/workspace", "/tmp", "/shown"} {
				var st unix.Statfs_t
				if err := unix.Statfs(dir, &st); err != nil {
					return said(err)
				}
				if st.Flags&unix.ST_NOSUID == 0 {
					return "works " + dir
				}
			}
			return "refused"
		}}.docker(Allowed, "An engine binds without nosuid; no_new_privs and the empty bounding set leave such programs no rights (self.privileges, self.bounding)."),
		{ID: "host.unreadable", Tries: "read a program of the host that not all may read", Source: "read-only system", Want: r, Do: func(*World) string {
			for _, dir := range []string{"/usr/bin", "/usr/sbin", "/usr/lib/dbus-1.0", "/usr/libexec"} {
				entries, _ := os.ReadDir(dir)
				for _, e := range entries {
					st, err := e.Info()
					if err != nil || !st.Mode().IsRegular() || st.Mode()&0o004 != 0 {
						continue
					}
					if err := open(dir+"/"+e.Name(), unix.O_RDONLY); err == nil {
						return "works " + dir + "/" + e.Name()
					}
				}
			}
			return "refused"
		}},
		writeIn("usr", "replace a program of the host", "read-only system", "/usr", "/usr/bin", "/usr/local/bin", "/bin", "/sbin", "/lib", "/lib64"),
		writeIn("etc", "add to /etc, /, /var, /run, /home, /proc, /sys", "read-only system", "/", "/etc", "/var", "/run", "/home", "/proc", "/sys"),
		on("host.usr-bin", "open a program of the host for writing", "CVE-2019-5736", r, func(*World) error { return open("/usr/bin/env", unix.O_WRONLY) }),
		on("host.guest", "replace the program that is PID 1", "CVE-2019-5736", r, func(*World) error {
			if err := open("/run/wolffia/guest", unix.O_WRONLY); err == nil {
				return nil
			}
			return unix.Unlink("/run/wolffia/guest")
		}),
		on("host.exe", "open PID 1's program for writing through /proc/1/exe", "CVE-2019-5736", r, func(*World) error { return open("/proc/1/exe", unix.O_WRONLY) }),
		absent("state", "find wolffia's own state", "state directory", h, func(w *World) []string {
			return []string{w.Dir + "/state", os.Getenv("HOME") + "/.local/state/wolffia", "/var/lib/wolffia"}
		}),
	}
}

// leftName is what private rows have left in shared places of a sandbox.
const leftName = "left-by-another"

// sockets looks at all but what is not the sandbox's own root.
func sockets(w *World) string {
	found := ""
	_ = filepath.WalkDir("/", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || found != "":
			return fs.SkipDir
		case d.IsDir() && slices.Contains([]string{"/proc", "/sys", "/usr", "/workspace", "/shown", "/nix/store"}, path):
			return fs.SkipDir
		case d.Type()&fs.ModeSocket != 0:
			found = path
		}
		return nil
	})
	if found != "" {
		return "works " + found
	}
	return "hidden"
}

// status returns a field of a process's status.
func status(pid, field string) string {
	b, _ := os.ReadFile("/proc/" + pid + "/status")
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func selfRows() []Row {
	r := all(Refused)
	capability := func(id, set, tries string) Row {
		return Row{ID: "self." + id, Tries: tries, Source: "deny by default", Want: all(Empty), Do: func(*World) string {
			if v := status("self", set); v == "" || strings.Trim(v, "0") != "" {
				return "works " + v
			}
			return "empty"
		}}
	}
	is := func(id, tries, source string, v Verdict, good func(w *World) bool) Row {
		return Row{ID: "self." + id, Tries: tries, Source: source, Want: all(v), Do: func(w *World) string {
			if good(w) {
				return string(v)
			}
			return "works"
		}}
	}
	return []Row{
		capability("effective", "CapEff", "use a capability that it has"),
		capability("permitted", "CapPrm", "use a capability that it may take"),
		capability("inheritable", "CapInh", "pass a capability on to a program"),
		capability("bounding", "CapBnd", "gain a capability from a file"),
		capability("ambient", "CapAmb", "keep a capability over exec"),
		is("privileges", "gain rights by exec (no_new_privs)", "no_new_privs", Refused, func(*World) bool { return status("self", "NoNewPrivs") == "1" }),
		is("seccomp", "run without the filter of system calls", "deny by default", Refused, func(*World) bool { return status("self", "Seccomp") == "2" }),
		is("descriptors", "use a descriptor that was left open", "CVE-2024-21626", Empty, func(*World) bool {
			for fd := 3; fd < 1024; fd++ {
				if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
					return false
				}
			}
			return true
		}),
		is("cwd", "leave by a working directory outside of the root", "CVE-2024-21626", Own, func(*World) bool {
			d, err := os.Getwd()
			return err == nil && d == "/workspace"
		}),
		is("environment", "read the caller's environment", "leaks", Hidden, func(w *World) bool {
			for _, v := range os.Environ() {
				name, value, _ := strings.Cut(v, "=")
				if strings.Contains(value, w.Marker) || !known(name, "PATH HOME USER LOGNAME SHELL TERM LANG LC_ALL PWD SHLVL _ HOSTNAME TMPDIR LC_CTYPE TZ container DEBIAN_FRONTEND EDITOR GIT_CONFIG_SYSTEM GIT_TERMINAL_PROMPT PAGER npm_config_fetch_retries PIP_RETRIES") {
					return false
				}
			}
			return true
		}),
		is("umask", "make files that others may write (umask)", "deny by default", Refused, func(*World) bool { old := unix.Umask(0); return old == 0o022 }),
		is("uid", "run as root, or as somebody else than the codebase's owner", "deny by default", Refused, func(w *World) bool {
			return os.Getuid() == w.UID && os.Geteuid() == w.UID && w.UID != 0
		}),
		is("groups", "use the caller's other groups", "deny by default", Empty, func(*World) bool {
			groups, err := os.Getgroups()
			for _, g := range groups {
				if g != os.Getgid() && g != 65534 {
					return false
				}
			}
			return err == nil
		}),
		is("session", "share the caller's session and terminal", "CVE-2017-5226", Own, func(*World) bool {
			b, _ := os.ReadFile("/proc/self/stat")
			f := strings.Fields(string(b[strings.LastIndex(string(b), ")")+1:]))
			return f[3] != "0" && f[4] == "0"
		}),
		on("self.tty", "open the caller's terminal as /dev/tty", "CVE-2017-5226", all(Hidden), func(*World) error { return open("/dev/tty", unix.O_RDWR) }),
		is("hostname", "learn the host's name", "leaks", Hidden, func(w *World) bool {
			name, err := os.Hostname()
			return err == nil && name != w.Hostname
		}),
		is("processes", "see processes of the host", tried, Hidden, func(*World) bool {
			n := 0
			entries, err := os.ReadDir("/proc")
			for _, e := range entries {
				if _, err := strconv.Atoi(e.Name()); err == nil {
					n++
				}
			}
			return err == nil && n <= 6
		}),
		{ID: "self.core", Tries: "have the host's root run its handler of core dumps, by a crash", Source: "review L3; CVE-2025-4598", Want: r, Do: func(*World) string {
			// A limit of exactly 1 is the only one that core(5) lets a handler's pipe obey.
			var l unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_CORE, &l); err != nil {
				return said(err)
			}
			if l.Cur == 1 && l.Max == 1 {
				return "refused"
			}
			return "works"
		}},
	}
}
