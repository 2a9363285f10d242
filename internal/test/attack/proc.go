package attack

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// reads is a row about reading a file of the kernel's; writing, about opening one for writing.
func reads(id, tries, source, path string, want Want) Row {
	return Row{ID: id, Tries: tries, Source: source, Want: want, Do: func(*World) string {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return closed(said(err))
		}
		defer unix.Close(fd)
		n, err := unix.Read(fd, make([]byte, 100))
		if err == nil && n == 0 {
			return "refused empty"
		}
		return closed(said(err))
	}}
}

func writes(id, tries, source, path string, want Want) Row {
	return Row{ID: id, Tries: tries, Source: source, Want: want, Do: func(*World) string { return closed(covered(path, unix.O_WRONLY)) }}
}

// inSys finds what is in /sys beside processors and nodes of memory.
func inSys(*World) string {
	const system = "/sys/devices/system"
	for dir, shown := range map[string][]string{"/sys": {"devices"}, "/sys/devices": {"system"}, system: {"cpu", "node"}} {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if !slices.Contains(shown, e.Name()) {
				return "works " + dir + "/" + e.Name()
			}
		}
	}
	return "hidden"
}

func procRows() []Row {
	r, h := all(Refused), all(Hidden)
	const settings = "CVE-2025-52881"
	return []Row{
		writes("proc.core_pattern", "have the host run a program at the next crash (core_pattern)", settings, "/proc/sys/kernel/core_pattern", r),
		writes("proc.modprobe", "have the host run a program for the next unknown format (modprobe)", settings, "/proc/sys/kernel/modprobe", r),
		writes("proc.hotplug", "have the host run a program for the next device (hotplug)", settings, "/proc/sys/kernel/hotplug", r),
		writes("proc.binfmt", "have the host run a program for a format (binfmt_misc)", settings, "/proc/sys/fs/binfmt_misc/register", r),
		writes("proc.sysrq", "restart the host (sysrq-trigger)", settings, "/proc/sysrq-trigger", r),
		writes("proc.pid_max", "leave no numbers for new processes (pid_max)", "review L5", "/proc/sys/kernel/pid_max", r),
		{ID: "proc.ns_last_pid", Tries: "choose the next process's number", Source: "checkpointing's knob", Want: r, Do: func(*World) string {
			return closed(said(os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte("1000"), 0)))
		}},
		writes("proc.hostname", "set the host's name by its file", settings, "/proc/sys/kernel/hostname", r),
		writes("proc.overcommit", "change how memory is given", settings, "/proc/sys/vm/overcommit_memory", r),
		writes("proc.drop_caches", "have the host drop its caches", settings, "/proc/sys/vm/drop_caches", r),
		writes("proc.suid_dumpable", "have set-id programs dumped", settings, "/proc/sys/fs/suid_dumpable", r),
		writes("proc.ip_forward", "have the network forward packets", settings, "/proc/sys/net/ipv4/ip_forward", r),
		writes("proc.shmmax", "change the limits of System V memory", settings, "/proc/sys/kernel/shmmax", r),
		writes("proc.max_user_namespaces", "raise the limit on user namespaces", namespace, "/proc/sys/user/max_user_namespaces", r),
		writes("proc.randomize", "switch off address randomisation for all", settings, "/proc/sys/kernel/randomize_va_space", r),
		reads("proc.kcore", "read the kernel's memory", tried, "/proc/kcore", r),
		reads("proc.kmsg", "read the kernel's messages", tried, "/proc/kmsg", r),
		reads("proc.kpageflags", "read the state of the host's pages", "rowhammer's helper", "/proc/kpageflags", r),
		reads("proc.slabinfo", "read the kernel's allocations", "exploits' helper", "/proc/slabinfo", r),
		reads("proc.vmallocinfo", "read the kernel's mappings", "exploits' helper", "/proc/vmallocinfo", r),
		reads("proc.timer_list", "read the kernel's timers", "moby masks it", "/proc/timer_list", r),
		reads("proc.keys", "list the host user's keys", "moby masks it", "/proc/keys", r),
		{ID: "proc.kallsyms", Tries: "read the addresses of the kernel's symbols", Source: "kernel.kptr_restrict", Want: all(Empty), Do: func(*World) string {
			b, err := os.ReadFile("/proc/kallsyms")
			if err != nil {
				return "empty " + said(err)
			}
			for line := range strings.Lines(string(b)) {
				if strings.Trim(strings.Fields(line)[0], "0") != "" {
					return "works " + line
				}
			}
			return "empty"
		}},
		{ID: "proc.modules", Tries: "read the addresses of the kernel's modules", Source: "kernel.kptr_restrict", Want: all(Empty), Do: func(*World) string {
			b, err := os.ReadFile("/proc/modules")
			if err != nil {
				return "empty " + said(err)
			}
			for line := range strings.Lines(string(b)) {
				if f := strings.Fields(line); len(f) > 5 && strings.Trim(f[5], "0x") != "" {
					return "works " + line
				}
			}
			return "empty"
		}},
		{ID: "proc.iomem", Tries: "read the map of the host's memory", Source: "exploits' helper", Want: all(Empty), Do: func(*World) string {
			b, err := os.ReadFile("/proc/iomem")
			if err != nil {
				return "empty " + said(err)
			}
			for line := range strings.Lines(string(b)) {
				if strings.Trim(strings.Fields(line)[0], "0-") != "" {
					return "works " + line
				}
			}
			return "empty"
		}},
		{ID: "proc.mountinfo", Tries: "learn the host's paths from the mount table", Source: "CDK", Want: h, Do: func(w *World) string {
			b, err := os.ReadFile("/proc/self/mountinfo")
			if err != nil {
				return said(err)
			}
			if bytes.Contains(b, []byte(w.Dir+"/code")) {
				return "works"
			}
			return "hidden"
		}},
		Row{ID: "proc.state", Tries: "learn where wolffia and its state are, and so the caller's name, from the mount table", Source: "deepce", Want: h, Do: func(w *World) string {
			b, err := os.ReadFile("/proc/self/mountinfo")
			if err != nil {
				return said(err)
			}
			if bytes.Contains(b, []byte(w.State)) {
				return "works"
			}
			return "hidden"
		}}.docker(Allowed, "An engine binds `/etc` and the filter from the state directory, and shows their paths on the host."),
		on("proc.cgroup-new", "make a control group", "CVE-2022-0492", r, func(*World) error {
			for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/rdma"} {
				if err := unix.Mkdir(dir+"/attack", 0o700); Judge(closed(said(err))) != Refused {
					return err
				}
			}
			return unix.EPERM
		}),
		{ID: "proc.cgroup", Tries: "learn the host's control groups", Source: "CDK", Want: h, Do: func(*World) string {
			b, err := os.ReadFile("/proc/self/cgroup")
			if err != nil {
				return said(err)
			}
			for line := range strings.Lines(string(b)) {
				if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 && f[2] != "/" {
					return "works " + line
				}
			}
			return "hidden"
		}},
		{ID: "proc.host", Tries: "find a process of the host by its number", Source: tried, Want: h, Do: func(w *World) string {
			environ := "/proc/" + itoa(w.PID) + "/environ"
			if b, err := os.ReadFile(environ); err == nil && bytes.Contains(b, []byte(w.Marker)) {
				return "works"
			} else if err != nil {
				return said(err)
			}
			return "hidden"
		}},
		{ID: "proc.secret", Tries: "find the caller's secret in the environment or command line of any process", Source: "leaks", Want: h, Do: func(w *World) string {
			files, _ := filepath.Glob("/proc/[0-9]*/environ")
			lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, f := range append(files, lines...) {
				if b, _ := os.ReadFile(f); bytes.Contains(b, []byte(w.Marker)) && !bytes.Contains(b, []byte(`"Marker"`)) {
					return "works " + f
				}
			}
			return "hidden"
		}},
		on("proc.oom", "be the last that is killed when memory is short", "starves the host", r, func(*World) error { return write("/proc/self/oom_score_adj", "-1000") }).
			gvisor(Allowed, "gVisor takes the value, and passes nothing on to the host."),
		on("proc.uid_map", "map the namespace's users to others", "CVE-2014-8989", r, func(*World) error { return write("/proc/self/uid_map", "0 0 1") }),
		{ID: "proc.uid_maps", Tries: "give users or groups to the namespace of any process, or let it change its groups", Source: "CVE-2014-8989", Want: r, Do: inMaps},
		Row{ID: "proc.sys", Tries: "find anything in /sys but processors", Source: "CVE-2023-25809", Want: h, Do: inSys}.
			gvisor(Allowed, "gVisor has one of its own, in which there is nothing of the host.").
			docker(Allowed, "An engine shows the kernel's, read-only."),
		writes("proc.cpu", "change the host's processors", "CDK", "/sys/devices/system/cpu/uevent", r),
		writes("proc.uevent_helper", "have the host run a program for the next device (uevent_helper)", "CDK", "/sys/kernel/uevent_helper", r),
		{ID: "proc.release_agent", Tries: "have the host run a program when a control group is empty (release_agent)", Source: "CVE-2022-0492", Want: r, Do: func(*World) string {
			for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/rdma", "/cgroup"} {
				if now := closed(covered(dir+"/release_agent", unix.O_WRONLY)); Judge(now) != Refused {
					return now
				}
			}
			return "refused"
		}},
		writes("proc.cgroup_procs", "leave the control group", "CVE-2023-25809", "/sys/fs/cgroup/cgroup.procs", r),
		reads("proc.debugfs", "read the kernel's debug files", "CDK", "/sys/kernel/debug/tracing/trace", r),
		reads("proc.dmi", "read the machine's serial number", "CDK", "/sys/class/dmi/id/product_uuid", r),
	}
}

// devices is a row about device nodes: none of them may exist and work.
func devices(id, tries, source string, want Want, names ...string) Row {
	return Row{ID: "dev." + id, Tries: tries, Source: source, Want: want, Do: func(*World) string {
		for _, name := range names {
			files, _ := filepath.Glob("/dev/" + name)
			for _, f := range files {
				if now := covered(f, unix.O_RDONLY); Judge(now) != Hidden {
					return now + " " + f
				}
			}
		}
		return "hidden"
	}}
}

func deviceRows() []Row {
	h := all(Hidden)
	return []Row{
		devices("mem", "read the machine's memory", "CDK", h, "mem", "kmem", "port", "nvram", "mergemem"),
		devices("kmsg", "read and forge the kernel's messages", "CDK", h, "kmsg"),
		devices("disk", "read a disk (debugfs)", "CDK mount-disk", h, "sd*", "vd*", "xvd*", "nvme*", "loop*", "dm-*", "mapper/*", "md*", "nbd*", "zd*", "ram*", "mmcblk*"),
		devices("fuse", "serve a file system", "attack surface", h, "fuse", "cuse").gvisor(Allowed, "It leads to gVisor's own kernel."),
		devices("tun", "make a network interface", "attack surface", h, "net/tun", "net/tap*", "ppp").gvisor(Allowed, "It leads to gVisor's own kernel."),
		devices("kvm", "run a machine", "attack surface", h, "kvm", "vhost-*", "vsock", "vfio/*", "sev", "sgx*"),
		devices("gpu", "use a graphics card", "attack surface", h, "dri/*", "nvidia*", "kfd"),
		devices("input", "read the keyboard, or type on it", "attack surface", h, "input/*", "uinput", "uhid", "hidraw*", "snd/*", "video*"),
		devices("control", "control loop devices, mappers, autofs, file systems, snapshots", "attack surface", h, "loop-control", "mapper/control", "autofs", "btrfs-control", "snapshot", "watchdog*", "rtc*", "cpu/*/msr", "userfaultfd"),
		devices("console", "use the host's consoles", "CVE-2025-52565", h, "tty[0-9]*", "vcs*", "ttyS*", "hvc*"),
		{ID: "dev.others", Tries: "find any other device node", Source: tried, Want: h, Do: func(*World) string {
			entries, err := os.ReadDir("/dev")
			if err != nil {
				return said(err)
			}
			for _, e := range entries {
				if !known(e.Name(), "console core fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero char fuse net") {
					return "works " + e.Name()
				}
			}
			return "hidden"
		}},
		on("dev.new", "make a device node in /dev or /tmp", "CVE-2026-41579", all(Refused), func(*World) error {
			for _, dir := range []string{"/dev", "/tmp", "/dev/shm"} {
				for _, kind := range []uint32{unix.S_IFCHR, unix.S_IFBLK} {
					if err := unix.Mknod(dir+"/device", kind|0o666, int(unix.Mkdev(8, 0))); !errors.Is(err, unix.EPERM) {
						return err
					}
				}
			}
			return unix.EPERM
		}),
		{ID: "dev.pts", Tries: "open a terminal of the host", Source: "attack on the caller's terminal", Want: h, Do: func(*World) string {
			files, _ := filepath.Glob("/dev/pts/[0-9]*")
			for _, f := range files {
				if err := open(f, unix.O_RDWR); err == nil {
					return "works " + f
				}
			}
			return "hidden"
		}},
	}
}

// inMaps writes to the maps of all processes' namespaces.
func inMaps(*World) string {
	last := "refused"
	for name, text := range map[string]string{"uid_map": "0 0 1", "gid_map": "0 0 1", "setgroups": "deny"} {
		files, _ := filepath.Glob("/proc/[0-9]*/" + name)
		for _, f := range files {
			switch now := said(write(f, text)); Judge(now) {
			case Refused, Hidden: // also the file of a process that has ended
			default:
				last = now + " " + f
			}
		}
	}
	return last
}
