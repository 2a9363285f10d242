package launch_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"wolffia/internal/test/launchtest"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

var kinds = []string{"bind", "filter", "cover", "symlink", "proc", "dev", "shm", "sys", "tmpfs", "parent"}

// table writes mounts as lines, as in fstab(5).
func table(mounts []launch.Mount) string {
	var b strings.Builder
	for _, m := range mounts {
		fmt.Fprintf(&b, "%s %s", kinds[m.Kind], m.Target)
		if m.Source != "" {
			fmt.Fprintf(&b, " from %s", m.Source)
		}
		if m.Mode != 0 {
			fmt.Fprintf(&b, " mode %04o", m.Mode)
		}
		if m.Size != 0 {
			fmt.Fprintf(&b, " size %d", m.Size)
		}
		if m.Names != 0 {
			fmt.Fprintf(&b, " names %d", m.Names)
		}
		if m.Writable {
			b.WriteString(" writable")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestMounts(t *testing.T) {
	const (
		root   = "bind /usr from /usr\nsymlink /bin from usr/bin\nsymlink /lib from usr/lib\nbind /opt from /opt\nsymlink /var/tmp from ../tmp\n"
		proc   = "proc /proc\n"
		covers = "cover /proc/sys from /proc/sys\ncover /proc/keys from /state/run/mnt/no-file\n"
		etc    = "bind /etc from /state/run/mnt/etc\n"
		memory = "shm /dev/shm mode 1777\nsys /sys\ntmpfs /tmp mode 1777\ntmpfs /home/ann mode 0700\n"
		tree   = "bind /workspace from /state/run/mnt/tree writable\n"
		own    = "tmpfs /run/.w mode 0700 size 268435456\nbind /run/wolffia/guest from /usr/local/bin/wolffia-guest\nfilter /run/wolffia/seccomp from /state/run/mnt/backend/seccomp\n"
	)
	specs := launchtest.Specs()
	for name, want := range map[string]string{
		"codebase":    root + proc + "dev /dev\n" + covers + etc + memory + tree + own,
		"network":     root + proc + "dev /dev\n" + covers + etc + memory + tree + own,
		"no-codebase": root + proc + "dev /dev\n" + covers + etc + memory + "tmpfs /workspace mode 0755\n" + own,
		"mounts":      root + proc + "dev /dev\n" + covers + etc + memory + tree + "bind /data from /data\nbind /cache from /home/ann/cache writable\n" + own,
		// A mount below another comes after it, and one in the place of another is there alone.
		"nested": root + proc + "dev /dev\n" + covers + etc + strings.Replace(memory, "tmpfs /home/ann mode 0700\n", "", 1) + "bind /data from /data\nbind /home/ann from /home/ann writable\n" +
			"bind /home/ann/src/x from /state/run/mnt/tree writable\nbind /home/ann/src/x/data from /home/ann/src/x/data\n" + own,
		"rootfs": "bind /bin from /r/bin\nbind /etc from /r/etc\nsymlink /var/tmp from ../tmp\n" + proc + "dev /dev\n" + covers + memory +
			tree + "bind /etc/passwd from /state/run/mnt/etc/passwd\n" + own,
		"git":   root + proc + "dev /dev\n" + covers + etc + memory + tree + "bind /run/wolffia/git from /state/run/mnt/git\n" + own,
		"image": proc + "dev /dev\n" + covers + memory + tree + own,
		"root": proc + "dev /dev\n" + covers + strings.Replace(memory, "tmpfs /home/ann mode 0700\n", "", 1) +
			tree + "bind /root/.cache/go from /cache writable\n" + own,
		"limits": root + proc + "dev /dev size 1048576\n" + covers + etc +
			"shm /dev/shm mode 1777 size 4194304 names 2048\nsys /sys\ntmpfs /tmp mode 1777 size 16777216 names 8192\ntmpfs /home/ann mode 0700 size 8388608 names 4096\ntmpfs /workspace mode 0755 size 8388608 names 4096\n" +
			strings.Replace(own, "268435456", "4194304 names 2048", 1),
	} {
		if diff := cmp.Diff(want, table(specs[name].Mounts())); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
		delete(specs, name)
	}
	if len(specs) > 0 {
		t.Errorf("no row for %v", specs)
	}
}

// Mounts leaves the spec as it is: a backend may change what it returns.
func TestMountsAreACopy(t *testing.T) {
	s := launchtest.Spec(func(s *launch.Spec) { s.Root = slices.Grow(s.Root, 100) })
	before := table(s.Mounts())
	for i, all := 0, s.Mounts(); i < len(all); i++ {
		all[i] = launch.Mount{Source: "changed"}
	}
	if got := table(s.Mounts()); got != before {
		t.Errorf("changed:\n%s", got)
	}
}

// With a limit of memory, files in memory never fill all of it, and every file system
// that the user may write to has a size.
func TestMountsAreLessThanMemory(t *testing.T) {
	for _, limit := range []int64{16 << 20, 512 << 20, 64 << 30} {
		s := launchtest.Spec(func(s *launch.Spec) {
			s.Scratch, s.Config = []string{"/workspace"}, &runtime.SandboxConfig{Resources: runtime.Resources{Memory: limit}}
		})
		var sum, names int64
		for _, m := range s.Mounts() {
			switch m.Kind {
			case launch.Tmpfs, launch.Shm, launch.Dev:
				if m.Size <= 0 {
					t.Errorf("%s has no size", m.Target)
				}
				if m.Names <= 0 && m.Kind != launch.Dev { // which is read-only then
					t.Errorf("%s can have any number of names", m.Target)
				}
				sum, names = sum+m.Size, names+m.Names
			}
		}
		if sum > limit*3/4 {
			t.Errorf("%d of %d bytes", sum, limit)
		}
		if all := sum + names*1024; all > limit*7/8 {
			t.Errorf("%d of %d bytes with the names", all, limit)
		}
	}
}

// What hides another mount at the same place is there alone.
func TestOneMountAtEachPlace(t *testing.T) {
	s := &launch.Spec{Home: "/home/ann", Scratch: []string{"/srv"}, Binds: []runtime.Mount{
		{Source: "/host/tmp", Target: "/tmp"}, {Source: "/host/home", Target: "/home/ann"}, {Source: "/host/srv", Target: "/srv"},
	}}
	from := map[string]string{}
	for _, m := range s.Mounts() {
		if _, twice := from[m.Target]; twice {
			t.Errorf("two mounts at %s", m.Target)
		}
		from[m.Target] = m.Source
	}
	for _, m := range s.Binds {
		if from[m.Target] != m.Source {
			t.Errorf("at %s is %q, want %q", m.Target, from[m.Target], m.Source)
		}
	}
}

// Directories between the home directory and what is mounted in it are the user's, once each,
// and come before the mounts.
func TestParents(t *testing.T) {
	s := &launch.Spec{Home: "/home/ann", Binds: []runtime.Mount{
		{Target: "/home/ann/.cargo/bin"},
		{Target: "/home/ann/.cargo/b/c"},
		{Target: "/home/annex/x/y"},
		{Target: "/opt/x"},
		{Target: "/home/ann/.pyenv"},
		{Target: "/home/ann/.pyenv/versions/a"},
		{Target: "/home/ann/file"},
	}}
	var got []string
	for _, m := range s.Mounts() {
		if m.Kind == launch.Parent {
			got = append(got, m.Target)
		} else if m.Kind == launch.Bind && m.Target == s.Binds[0].Target && len(got) == 0 {
			t.Error("mounted before its parent")
		}
	}
	if want := []string{"/home/ann/.cargo", "/home/ann/.cargo/b"}; !slices.Equal(got, want) {
		t.Errorf("parents %v, want %v", got, want)
	}
}

// Without a home of its own a sandbox has no parents: the root directory has them.
func TestParentsWithoutHome(t *testing.T) {
	s := &launch.Spec{Config: &runtime.SandboxConfig{CodebaseNames: []string{"/a/b/c"}}}
	var got []string
	for _, m := range s.Mounts() {
		if m.Kind == launch.Parent {
			got = append(got, m.Target)
		}
	}
	if got != nil {
		t.Errorf("parents %v", got)
	}
}
