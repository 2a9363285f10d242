package bwrap_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/sys/hostpath"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testenv"
	"wolffia/perm"
	"wolffia/runtime"
)

// Each kind of mount works with the bubblewrap that is tested: scripts/bwraps names it in WOLFFIA_TEST_BWRAP.
func TestMounts(t *testing.T) {
	testenv.Both(t)
	need(t)
	if named := os.Getenv("WOLFFIA_TEST_BWRAP"); named != "" {
		found, err := hostpath.Look("bwrap")
		if err != nil {
			t.Fatal(err)
		}
		if want, got := content(t, named), content(t, found); want != got {
			t.Fatalf("%s is tested, and not %s", found, named)
		}
	}
	dir := shimtest.PublicDir(t)
	code := filepath.Join(dir, "code")
	for _, name := range []string{"code", "code/open", "code/secret", "read", "read/shut", "read/shut/place", "write"} {
		made(t, os.Mkdir(filepath.Join(dir, name), 0o755), filepath.Join(dir, name), 0o755)
	}
	for _, name := range []string{"code/open/file", "code/secret/file", "read/file", "alone"} {
		path := filepath.Join(dir, name)
		made(t, os.WriteFile(path, []byte("text\n"), 0o644), path, 0o644)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	made(t, err, filepath.Join(dir, "socket"), 0o666)
	defer l.Close()
	if os.Geteuid() == 0 { // the sandboxes are of a user of their codebase's
		made(t, nil, filepath.Join(dir, "read/shut"), 0o711) // which that user may search, and not read
		for _, name := range []string{"code", "code/open", "code/open/file", "code/secret", "code/secret/file", "write"} {
			if err := os.Chown(filepath.Join(dir, name), 65534, 65534); err != nil {
				t.Fatal(err)
			}
		}
	}
	mount := func(source, target string, writable bool) *runtime.SandboxConfig {
		return &runtime.SandboxConfig{CodebasePath: code, Mounts: []runtime.Mount{{Source: filepath.Join(dir, source), Target: target, Writable: writable}}}
	}
	nested := mount("read", "/data", false)
	nested.Mounts = append(nested.Mounts, runtime.Mount{Source: filepath.Join(dir, "write"), Target: "/data/shut/place"})
	rules := []perm.Rule{{Pattern: "**", Level: perm.Write}, {Pattern: "secret/**", Level: perm.None}}
	for name, test := range map[string]struct {
		config       *runtime.SandboxConfig
		script, want string
	}{
		"read-only directory":                    {mount("read", "/data", false), "cat /data/file; ! touch /data/new 2>/dev/null", "text\n"},
		"writable directory":                     {mount("write", "/data", true), "echo new >/data/new; cat /data/new", "new\n"},
		"one file":                               {mount("alone", "/deep/er/file", false), "cat /deep/er/file; ls /deep/er", "text\nfile\n"},
		"socket":                                 {mount("socket", "/deep/socket", false), `python3 -ISBc 'import socket; socket.socket(socket.AF_UNIX).connect("/deep/socket")'`, ""},
		"below a directory that is not readable": {nested, "ls -d /data/shut/place; ! touch /data/shut/place/x 2>/dev/null", "/data/shut/place\n"},
		"memory": {
			&runtime.SandboxConfig{}, "stat -c %a /tmp ~; touch /dev/shm/x; grep -c '^tmpfs /tmp tmpfs [^ ]*nosuid,nodev' /proc/mounts",
			"1777\n700\n1\n",
		},
		"devices": {
			&runtime.SandboxConfig{}, "echo gone >/dev/null; head -c 2 /dev/zero | wc -c; ls /dev/pts/ptmx; ! ls /dev/mem 2>/dev/null", "2\n/dev/pts/ptmx\n",
		},
		"processes": {
			&runtime.SandboxConfig{}, "tr '\\0' ' ' </proc/1/cmdline | cut -d' ' -f1; ls /proc/kcore /proc/keys 2>/dev/null | head -c 0; ! echo 1 2>/dev/null >/proc/sysrq-trigger",
			"/run/wolffia/guest\n",
		},
		"filtered codebase": {
			&runtime.SandboxConfig{CodebasePath: code, Permissions: rules}, "ls; echo more >open/more; ! ls secret 2>/dev/null", "open\n",
		},
		"masked codebase": {
			&runtime.SandboxConfig{CodebasePath: code, Permissions: rules, Filter: runtime.FilterStatic, GitDirs: runtime.GitReadOnly},
			"cat open/file; ! cat secret/file 2>/dev/null", "text\n",
		},
		"volume": {
			&runtime.SandboxConfig{Volumes: []runtime.VolumeMount{{Name: "kept", Target: "/kept"}}}, "echo kept >/kept/file; cat /kept/file", "kept\n",
		},
		"no user namespaces": {&runtime.SandboxConfig{}, "! unshare -U true 2>/dev/null; grep -h CapEff /proc/self/status", "CapEff:\t0000000000000000\n"},
	} {
		t.Run(name, func(t *testing.T) {
			rt := backend.Fresh(t)
			says(t, rt, started(t, rt, test.config), test.script, test.want)
		})
	}
	t.Run("image", func(t *testing.T) {
		rt := backend.Fresh(t)
		img := shimtest.Busybox(t, rt)
		says(t, rt, started(t, rt, &runtime.SandboxConfig{ImageID: img.ID}), "echo new >/etc/new; cat /etc/new", "new\n")
	})
	t.Run("root inside", func(t *testing.T) {
		testenv.Unprivileged(t) // the user of root's sandboxes has no ids
		testenv.Need(t, probe.SubIDs)
		rt := backend.Fresh(t)
		img := shimtest.Busybox(t, rt)
		id := started(t, rt, &runtime.SandboxConfig{ImageID: img.ID, Root: true})
		says(t, rt, id, "touch /file; chown 7:7 /file; stat -c %u /file; id -u; ! mount -t tmpfs tmpfs /mnt 2>/dev/null", "7\n0\n")
	})
}

// made wants what is at a path to be there, if err is nil, and gives it a mode.
func made(t *testing.T, err error, path string, mode os.FileMode) {
	t.Helper()
	if err := errors.Join(err, os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}

// content returns what is in a file.
func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// says runs a shell script and wants its output, and no error.
func says(t *testing.T, rt *shimtest.Runtime, id, script, want string) {
	t.Helper()
	r, err := rt.Exec(t.Context(), id, &runtime.ExecRequest{Command: []string{"sh", "-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(r.Stdout); got != want || r.ExitCode != 0 {
		t.Errorf("%s: %d, %q, want %q; %s", script, r.ExitCode, got, want, r.Stderr)
	}
}
