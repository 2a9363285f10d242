package shimtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/image/store"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/testimage"
	"wolffia/runtime"
)

// home is a directory of the host's that the sandbox's user may write to, by
// the names that it could have for whoever puts a sandbox together.
func (im *images) home(t *testing.T) (dir string, names []string) {
	t.Helper()
	dir = filepath.Join(PublicDir(t), "home")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	names = []string{dir, "../.." + dir}
	for _, root := range im.hostRoots {
		names = append(names, root+dir, "../../../../.."+root+dir)
	}
	return dir, names
}

// empty fails unless nothing was made in a directory.
func empty(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("made on the host: %v, %v", left, err)
	}
}

// Links of an image where the sandbox's own parts belong are not followed: no
// file appears on the host, and the parts are where they should be.
func (im *images) linksInTheWay(t *testing.T) {
	rt := im.backend.Fresh(t)
	host, names := im.home(t)
	for _, to := range names {
		var links []testimage.File
		for _, name := range []string{"run", "home", "dev", "proc", "sys", "tmp", "workspace", "etc", "data"} {
			links = append(links, testimage.File{Name: name, Link: to})
		}
		img := busybox(t, rt, "x", store.Config{Env: []string{"PATH=/bin"}}, links...)
		s := on(t, rt, &runtime.SandboxConfig{ImageID: img.ID, Mounts: []runtime.Mount{{Source: "/etc/hostname", Target: "/data/hostname"}}, MountPoint: "/workspace/deep/er"})
		says(t, rt, s.ID, "stat -c %F /run/wolffia /home /dev /proc/1 /etc /workspace/deep/er; cat /data/hostname >/dev/null; echo x >/tmp/x", strings.Repeat("directory\n", 6))
		if err := rt.Destroy(t.Context(), s.ID); err != nil {
			t.Error(err)
		}
		empty(t, host)
	}
}

// Nothing that an image has where the seccomp filter belongs is taken for it.
func (im *images) filterInTheWay(t *testing.T) {
	rt := im.backend.Fresh(t)
	host, _ := im.home(t)
	const place = "run/wolffia/seccomp"
	for what, file := range map[string]testimage.File{
		"one that allows all": {Name: place, Body: "\x06\x00\x00\x00\x00\x00\xff\x7f"}, // return SECCOMP_RET_ALLOW
		"none":                {Name: place},
		"a link":              {Name: place, Link: filepath.Join(host, "filter")},
		"a directory":         {Name: place + "/full/", Mode: 0o700},
	} {
		img := busybox(t, rt, "x", store.Config{Env: []string{"PATH=/bin"}}, file)
		s := on(t, rt, &runtime.SandboxConfig{ImageID: img.ID})
		// What the filter refuses, whatever else does.
		says(t, rt, s.ID, "busybox grep Seccomp: /proc/self/status; busybox unshare -U true 2>/dev/null || echo filtered", "Seccomp:\t2\nfiltered\n")
		if t.Failed() {
			t.Fatal(what)
		}
		if err := rt.Destroy(t.Context(), s.ID); err != nil {
			t.Error(err)
		}
		empty(t, host)
	}
}

// What a sandbox has made of its own root while it ran does not lead its next
// start astray, nor stop it.
func (im *images) hostileRestart(t *testing.T) {
	rt := im.backend.Fresh(t)
	host, names := im.home(t)
	img := busybox(t, rt, "x", store.Config{Env: []string{"PATH=/bin"}})
	t.Cleanup(func() { // after all of them
		empty(t, host)
		tree := store.Open(rt.State).Rootfs(img.ID)
		if b, err := os.ReadFile(filepath.Join(tree, "etc", "os-release")); string(b) != "ID=testimage\n" {
			t.Errorf("the image has changed: %q, %v", b, err)
		}
	})
	for what, script := range map[string]string{
		"links":       "mv /run /moved; mv /home /moved2; mkdir /new; for d in /run /home; do ln -s TO $d; done",
		"links in /":  "rm -f /etc/hosts /etc/passwd /etc/hostname; for f in hosts passwd group hostname; do ln -sf TO/$f /etc/$f; done",
		"etc":         "mv /etc /e; ln -s TO /etc",
		"files":       "mv /run /moved; mv /etc /e; echo x >/run; echo x >/etc",
		"filter":      "mv /run /moved; mkdir -p /run/wolffia; for f in seccomp guest s; do ln -s TO/$f /run/wolffia/$f; done; rmdir /sys 2>/dev/null && ln -s TO /sys; true",
		"directories": "rm -f /etc/passwd /etc/hosts; mkdir -p /etc/passwd/a/b /etc/hosts/c; mv /run /moved; mkdir -p /run/wolffia/guest/full /run/wolffia/seccomp/full",
		"pipes":       "rm -f /etc/passwd /etc/group; mkfifo /etc/passwd /etc/group /pipe || busybox mkfifo /etc/passwd /etc/group",
		"modes":       "chmod 0 /run /etc /home /etc/passwd; chmod 0 /",
		"vast passwd": "busybox dd if=/dev/zero of=/etc/passwd bs=1048576 count=6 2>/dev/null",
	} {
		for i, to := range names {
			if strings.Contains(script, "TO") && !testenv.Picked(i+len(what), 2) { // other scripts have its place
				continue
			}
			t.Run(what+" to "+to, func(t *testing.T) {
				t.Parallel()
				s := on(t, rt, &runtime.SandboxConfig{ImageID: img.ID})
				r, err := rt.Exec(t.Context(), s.ID, &runtime.ExecRequest{Command: []string{"/bin/sh", "-c", strings.ReplaceAll(script, "TO", to)}})
				if err != nil || r.ExitCode != 0 {
					t.Errorf("Exec: got err %v, r %+v; want err == nil and r.ExitCode == 0", err, r)
				}
				if err := rt.Stop(t.Context(), s.ID); err != nil {
					t.Fatal(err)
				}
				if err := rt.Start(t.Context(), s.ID); err != nil {
					t.Fatal(err)
				}
				says(t, rt, s.ID, "stat -c %F /run/wolffia/guest; busybox unshare -U true 2>/dev/null || echo filtered", "regular file\nfiltered\n")
			})
			if !strings.Contains(script, "TO") {
				break
			}
		}
	}
}

// The root has no devices and no set-id, the sandbox no way to its layers.
func (im *images) isolation(t *testing.T) {
	rt := im.backend.Fresh(t)
	img := busybox(t, rt, "x", store.Config{Env: []string{"PATH=/bin"}})
	s := on(t, rt, &runtime.SandboxConfig{ImageID: img.ID})
	r, err := rt.Exec(t.Context(), s.ID, &runtime.ExecRequest{Command: []string{"/bin/sh", "-c", "cat /proc/mounts; busybox mknod /null c 1 3 && echo made; ls " + rt.State + " && echo seen"}})
	if err != nil {
		t.Fatal(err)
	}
	root, flags := "", []string{"rw", "nosuid", "nodev"}
	for line := range strings.Lines(string(r.Stdout)) {
		if f := strings.Fields(line); len(f) > 3 && f[1] == "/" {
			root = "," + f[3] + ","
			if f[2] == "9p" { // gVisor's: it has set-id switched off, and is asked for a device below
				flags = flags[:1]
			}
		}
	}
	for _, flag := range flags {
		if !strings.Contains(root, ","+flag+",") {
			t.Errorf("the root is mounted %q, not %s", root, flag)
		}
	}
	if out := string(r.Stdout); strings.Contains(out, "made") || strings.Contains(out, "seen") || strings.Contains(root, rt.State) {
		t.Error(out)
	}
}
