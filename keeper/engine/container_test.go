package engine

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/system"

	"wolffia/internal/test/launchtest"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

var there = place{"/state", 1000}

func spec(change func(*launch.Spec)) *launch.Spec {
	s := &launch.Spec{
		ID: "abcdefghijkl", Tag: "abcdefghijkl-01234567", Hostname: "abcdefghijkl", CreatedAt: 1700000000000,
		UID: 1000, GID: 1000, Home: "/home/ann",
		Root: []launch.Mount{
			{Source: "/usr", Target: "/usr"},
			{Kind: launch.Symlink, Source: "usr/bin", Target: "/bin"},
			{Source: "/file", Target: "/file"},
			{Kind: launch.Symlink, Source: "../tmp", Target: "/var/tmp"},
		},
		Dir: "/state/sandboxes/abcdefghijkl/engine", Etc: "/state/sandboxes/abcdefghijkl/engine/etc", Identity: []string{"passwd", "group", "hosts", "hostname"},
		Binds:      []runtime.Mount{{Source: "/state/sandboxes/abcdefghijkl/engine/tree", Target: "/workspace", Writable: true}},
		Guest:      "/usr/local/bin/wolffia-guest",
		Network:    runtime.NetworkNone,
		Seccomp:    []byte{1},
		Processors: 4,
		Config:     &runtime.SandboxConfig{Docker: &runtime.DockerConfig{Host: "unix:///sock"}, Labels: map[string]string{"a": "b", launch.LabelSandboxID: "forged", labelState: "forged"}},
	}
	change(s)
	return s
}

func variants() map[string]*launch.Spec {
	return map[string]*launch.Spec{
		"codebase":    spec(func(*launch.Spec) {}),
		"podman":      spec(func(*launch.Spec) {}),
		"rootless":    spec(func(*launch.Spec) {}),
		"no-codebase": spec(func(s *launch.Spec) { s.Binds, s.Scratch = nil, []string{"/workspace"} }),
		"network":     spec(func(s *launch.Spec) { s.Network = runtime.NetworkHost }),
		"limits": spec(func(s *launch.Spec) {
			s.Config.Resources = runtime.Resources{Memory: 512 << 20, CPUs: 1.5, PIDs: 100}
			s.OpenFiles = 4096
		}),
		"image": spec(func(s *launch.Spec) { s.Root, s.Etc, s.Config.Image = nil, "", "busybox" }),
		"image-read-only": spec(func(s *launch.Spec) {
			s.Root, s.Etc, s.Config.Image, s.Config.Docker.ReadOnlyRoot = nil, "", "busybox", true
		}),
		"mounts": spec(func(s *launch.Spec) {
			s.Binds = append(s.Binds, runtime.Mount{Source: "/data", Target: "/data"}, runtime.Mount{Source: "/cache", Target: "/cache", Writable: true})
		}),
	}
}

// What the engine is told is the isolation: a change of it must be seen in a
// diff.
func TestConfigs(t *testing.T) {
	for name, s := range variants() {
		t.Run(name, func(t *testing.T) {
			c, h := configs(s, there, "the-image", abilities{recursive: name == "mounts", podman: name == "podman" || name == "rootless", rootless: name == "rootless"})
			got, err := json.MarshalIndent(map[string]any{"Config": c, "HostConfig": h}, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			launchtest.Golden(t, name, string(got)+"\n")
		})
	}
}

// Whatever a spec says, the engine is asked for all of the isolation.
func TestConfigsAlwaysIsolate(t *testing.T) {
	for name, s := range variants() {
		c, h := configs(s, there, "image", abilities{podman: name == "podman" || name == "rootless", rootless: name == "rootless"})
		switch {
		case !slices.Equal(h.CapDrop, []string{"ALL"}) || len(h.CapAdd) > 0 || h.Privileged:
			t.Errorf("%s: capabilities", name)
		case !slices.Equal(h.SecurityOpt, []string{"no-new-privileges"}): // no seccomp=unconfined
			t.Errorf("%s: security %v", name, h.SecurityOpt)
		case c.User != "1000:1000" || c.Tty || !c.StdinOnce:
			t.Errorf(`%s: got c %+v; want c.User == "1000:1000" and not c.Tty and c.StdinOnce`, name, c)
		case h.PidMode != "" || h.UTSMode != "" || (h.UsernsMode != "") != (name == "rootless") || h.IpcMode != "private" || h.CgroupnsMode != "private":
			t.Errorf("%s: namespaces", name)
		case s.Network != runtime.NetworkHost && (h.NetworkMode != "none" || !c.NetworkDisabled):
			t.Errorf("%s: network", name)
		case !h.ReadonlyRootfs && name != "image":
			t.Errorf("%s: the root is writable", name)
		case len(h.Binds) > 0 || len(h.Devices) > 0 || h.LogConfig.Type != "none" || h.AutoRemove:
			t.Errorf(`%s: got h %+v; want len(h.Binds) <= 0 and len(h.Devices) <= 0 and h.LogConfig.Type == "none" and not h.AutoRemove`,
				name, h)
		case c.Labels[launch.LabelSandboxID] != s.ID || c.Labels[labelState] != "/state" || c.Labels[labelUser] != "1000":
			t.Errorf("%s: labels %v", name, c.Labels)
		}
		for _, m := range h.Mounts {
			if m.ReadOnly && !m.BindOptions.NonRecursive {
				t.Errorf("%s: what is mounted in %s is writable", name, m.Source)
			}
			if !m.ReadOnly && !slices.ContainsFunc(s.Binds, func(b runtime.Mount) bool { return b.Writable && b.Target == m.Target }) {
				t.Errorf("%s: %s is writable", name, m.Target)
			}
		}
	}
}

// With a limit of memory, the directories in memory have room for less than
// that together.
func TestTmpfsIsLessThanMemory(t *testing.T) {
	for _, limit := range []int64{16 << 20, 512 << 20, 64 << 30} {
		s := spec(func(s *launch.Spec) { s.Scratch, s.Config.Resources.Memory = []string{"/workspace"}, limit })
		for _, podman := range []bool{false, true} {
			_, h := configs(s, there, "", abilities{podman: podman})
			sum := h.ShmSize
			for target, options := range h.Tmpfs {
				_, size, ok := strings.Cut(options, "size=")
				var n int64
				if err := json.Unmarshal([]byte(size), &n); err != nil || !ok {
					t.Errorf("%s has no size: %s", target, options)
				}
				sum += n
			}
			if sum > limit*3/4 {
				t.Errorf("%d of %d", sum, limit)
			}
		}
	}
}

func TestSkeleton(t *testing.T) {
	isFile := func(path string) bool { return path == "/file" }
	name, image, err := skeleton(spec(func(*launch.Spec) {}), isFile)
	if err != nil || !strings.HasPrefix(name, skeletonRepo+":") {
		t.Fatal(name, err)
	}
	var got []string
	for r := tar.NewReader(bytes.NewReader(image)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Size != 0 || h.Uid != 0 {
			t.Errorf("Next: got h %+v; want h.Size == 0 and h.Uid == 0", h)
		}
		got = append(got, h.FileInfo().Mode().String()+" "+h.Name+" "+h.Linkname)
	}
	want := []string{
		"Lrwxrwxrwx bin usr/bin", "drwxr-xr-x dev/ ", "drwxr-xr-x etc/ ", "-rw-r--r-- file ", "drwxr-xr-x proc/ ", "drwxr-xr-x run/ ",
		"drwxr-xr-x run/wolffia/ ", "drwxr-xr-x sys/ ", "dtrwxrwxrwx tmp/ ", "drwxr-xr-x usr/ ", "drwxr-xr-x var/ ", "Lrwxrwxrwx var/tmp ../tmp",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// Another root is another image; the same is the same.
	other, _, _ := skeleton(spec(func(s *launch.Spec) { s.Root[1].Source = "usr/other" }), isFile)
	again, _, _ := skeleton(spec(func(s *launch.Spec) { s.Home = "/home/other" }), isFile)
	if other == name || again != name {
		t.Errorf("skeleton: got name %s, other %s, again %s; want other != %s and again == %s", name, other, again, name, name)
	}
}

// An engine that cannot run a sandbox as it should is refused.
func TestSuits(t *testing.T) {
	good := system.Info{SecurityOptions: []string{"name=seccomp,profile=default"}, MemoryLimit: true, CPUCfsQuota: true, PidsLimit: true}
	all := runtime.Resources{Memory: 1 << 30, CPUs: 1, PIDs: 10}
	for name, tt := range map[string]struct {
		change func(*system.Info)
		want   runtime.Resources
		refuse string
	}{
		"good":             {func(*system.Info) {}, all, ""},
		"rootless":         {func(i *system.Info) { i.SecurityOptions = append(i.SecurityOptions, "name=rootless") }, all, "rootless"},
		"userns-remap":     {func(i *system.Info) { i.SecurityOptions = append(i.SecurityOptions, "name=userns") }, all, "userns-remap"},
		"no seccomp":       {func(i *system.Info) { i.SecurityOptions = nil }, all, "seccomp"},
		"no memory limit":  {func(i *system.Info) { i.MemoryLimit = false }, all, "memory"},
		"no cpu limit":     {func(i *system.Info) { i.CPUCfsQuota = false }, all, "processors"},
		"no process limit": {func(i *system.Info) { i.PidsLimit = false }, all, "processes"},
		"none asked for":   {func(i *system.Info) { i.MemoryLimit, i.CPUCfsQuota, i.PidsLimit = false, false, false }, runtime.Resources{}, ""},
	} {
		info := good
		info.SecurityOptions = slices.Clone(good.SecurityOptions)
		tt.change(&info)
		err := suits(&info, &tt.want, false)
		if (err == nil) != (tt.refuse == "") || err != nil && (!errors.Is(err, runtime.ErrUnsupported) || !strings.Contains(err.Error(), tt.refuse)) {
			t.Errorf(`%s: got err %v; want (err == nil) == tt.refuse == "" and (err == nil or (err is runtime.ErrUnsupported and err.Error() contains %v))`,
				name, err, tt.refuse)
		}
	}
}

// No variable of an image steers PID 1; what wolffia sets, stays.
func TestEnvOfImage(t *testing.T) {
	got := env(variants()["image"])
	seen := map[string]int{}
	for _, v := range got {
		name, value, ok := strings.Cut(v, "=")
		if seen[name]++; !ok || seen[name] > 1 || (value != "") != (name == "GOMAXPROCS") {
			t.Errorf(`got %q; want ok and seen[name] <= 1 and (value != "") == name == "GOMAXPROCS"`, got)
		}
	}
	for _, name := range []string{"GODEBUG", "GOGC", "GOMAXPROCS", "LD_LIBRARY_PATH", "LD_PRELOAD"} {
		if seen[name] != 1 {
			t.Errorf("got name %s, %q; want seen[name] == 1", name, got)
		}
	}
	if got := env(variants()["codebase"]); len(got) != 1 {
		t.Errorf("without an image: %q", got)
	}
}
