package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// A mount is where it should be only if nothing hides it, and only if it is the source's.
func TestJudge(t *testing.T) {
	const (
		root  = "300 200 0:60 / / rw - overlay overlay rw\n"
		proc  = "301 300 0:61 / /proc rw - proc proc rw\n"
		tree  = "302 300 0:62 / /work\\040space rw - fuse.wolffia wolffia rw\n"
		plain = "302 300 8:1 /state/tree /work\\040space rw - ext4 /dev/sda rw\n"
		guest = "303 300 8:1 /usr/bin/guest /run/wolffia/guest ro - ext4 /dev/sda rw\n"
		deep  = "304 300 8:1 /usr/bin/guest /a/b/c/d/guest ro - ext4 /dev/sda rw\n"
		hides = "305 303 8:1 /evil /run/wolffia/guest rw - ext4 /dev/sda rw\n"
		above = "306 300 8:1 /evil /run/wolffia rw - ext4 /dev/sda rw\n"
		below = "307 302 8:1 /data /work\\040space/data rw - ext4 /dev/sda rw\n"
		away  = "307 300 8:1 /data /etc rw - ext4 /dev/sda rw\n"
		near  = "308 300 8:1 /data /work\\040space2 rw - ext4 /dev/sda rw\n"
	)
	wTree := wanted{target: "/work space", device: "0:62", root: "/"}
	wGuest := wanted{target: "/run/wolffia/guest", device: "8:1", root: "/usr/bin/guest"}
	wData := wanted{target: "/work space/data", device: "8:1", root: "/data"}
	for _, c := range []struct {
		table string
		w     *wanted
		want  misplacement
	}{
		{root + proc + tree + guest, &wTree, placed},
		{root + proc + tree + guest, &wGuest, placed},
		{guest + tree + proc + root, &wGuest, placed}, // whatever the order
		{root + tree + below, &wData, placed},
		{root + tree + below, &wTree, placed},
		{root + near + tree, &wTree, placed},
		{root + plain, &wTree, other},
		{root + near, &wTree, moved},
		{root + tree + away, &wData, moved},
		{root + deep, &wGuest, moved},
		{root + guest + above, &wGuest, moved},
		{root + guest + hides, &wGuest, other},
		{root, &wGuest, moved},
		{"", &wGuest, moved},
		{"garbage\n1 2 3\nx y 0:1 / / rw\n", &wGuest, moved},
		{"1 2 0:1 / /run rw - x\n2 1 0:1 / / rw - x\n", &wGuest, moved}, // in a circle
	} {
		if got := judge(mountLines(c.table), c.w); got != c.want {
			t.Errorf("%s in\n%s: %v, want %v", c.w.target, c.table, got, c.want)
		}
	}
}

// A source is found in the table of this process, by a path that may contain links if it is not named by a user.
func TestSourceOf(t *testing.T) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	own := mountLines(string(text))
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file, link := filepath.Join(dir, "a file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a file", link); err != nil {
		t.Fatal(err)
	}
	device, root, err := sourceOf(own, file, false)
	if err != nil || !strings.HasSuffix(root, `/a\040file`) {
		t.Errorf("sourceOf: got device %s, root %s, err %v; want err == nil and root ends with %q", device, root, err, `/a\040file`)
	}
	if d, r, err := sourceOf(own, link, true); d != device || r != root || err != nil {
		t.Errorf("by a link: %s %s, %v", d, r, err)
	}
	if _, _, err := sourceOf(own, link, false); err == nil {
		t.Error("a link was followed")
	}
	if d, r, err := sourceOf(own, "/proc", false); r != "/" || err != nil {
		t.Errorf("/proc: %s %s, %v", d, r, err)
	}
	if _, _, err := sourceOf(nil, file, false); err == nil {
		t.Error("found in an empty table")
	}
}

// What is checked is what the engine has recorded; without the mounts that isolate, it is an error.
func TestWants(t *testing.T) {
	bindOf := func(target string) container.MountPoint {
		return container.MountPoint{Type: mount.TypeBind, Source: "/host" + target, Destination: target}
	}
	s := spec(func(s *launch.Spec) {
		s.Config.CodebasePath, s.Config.Mounts = "/code", []runtime.Mount{{Target: "/data"}}
	})
	recorded := []container.MountPoint{
		bindOf(launch.GuestPath), bindOf(launch.FilterPath), bindOf("/workspace"), bindOf("/data"),
		{Type: mount.TypeVolume, Source: "/volumes/x", Destination: "/x"},
	}
	all, err := wants(s, recorded)
	if err != nil || len(all) != 4 {
		t.Fatalf("wants: got all %+v, err %v; want err == nil and len(all) == 4", all, err)
	}
	for _, w := range all {
		if w.source != "/host"+w.target || w.links == (w.target == "/data") {
			t.Errorf(`got w %+v; want w.source == %q and w.links != w.target == "/data"`, w, "/host"+w.target)
		}
	}
	for i := range 3 {
		if all, err := wants(s, append(append([]container.MountPoint{}, recorded[:i]...), recorded[i+1:]...)); err == nil {
			t.Errorf("without %s: %+v", recorded[i].Destination, all)
		}
	}
}

// A volume of an image hides nothing of the sandbox's, but may be around it or in its place.
func TestHidden(t *testing.T) {
	mounts := spec(func(s *launch.Spec) { s.Binds = append(s.Binds, runtime.Mount{Target: "/data/x"}) }).Mounts()
	for volume, want := range map[string]string{
		"/workspace/node_modules": "/workspace", "/data/x/y/z": "/data/x", "/run/wolffia/guest/x": launch.GuestPath,
		"/home/ann/.cache": "/home/ann", "/tmp/x": "/tmp", "/proc/x": "/proc", "/proc": "/proc", "/dev": "/dev", "/sys": "/sys", "/": "/usr",
		"/workspace": "", "/workspace2": "", "/data": "", "/run/wolffia": "", "/run": "", "/home": "", "/srv": "", "/bin/x": "",
	} {
		recorded := []container.MountPoint{
			{Type: mount.TypeBind, Destination: "/workspace/bind"}, {Type: mount.TypeVolume, Destination: "/srv"}, {Type: mount.TypeVolume, Destination: volume},
		}
		got, target := hidden(recorded, mounts)
		if target != want || (got != "") != (want != "") {
			t.Errorf("%s: %s hides %q, want %q", volume, got, target, want)
		}
	}
}
