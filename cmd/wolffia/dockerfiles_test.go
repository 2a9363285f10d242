package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"wolffia/image/store"
	"wolffia/internal/test/dockertest"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/testimage"
	"wolffia/internal/test/wait"
)

var updateDockerfiles = flag.Bool("update-dockerfiles", false, "write what wolffia builds into testdata/dockerfiles")

// Dockerfiles of public projects' shapes: what wolffia build makes of each is as was written down,
// and as Docker's builder makes it, where an engine is there and knows its instructions. Package
// managers are stubs in the base image.
func TestDockerfiles(t *testing.T) {
	testenv.Both(t)
	testenv.Busybox(t)
	home := buildHome(t)
	base := baseArchive(t)
	baseFile := filepath.Join(home.dir, "base.tar")
	if err := os.WriteFile(baseFile, base, 0o644); err != nil {
		t.Fatal(err)
	}
	home.wolffia(t, "image", "import", baseFile, "base:1")
	engine, release := dockerBuilds(t, baseFile)
	files, err := filepath.Glob("testdata/dockerfiles/*.txtar")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	plain, _ := flatten(t, base)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(home.dir, name)
			want, since23 := unpackShape(t, a, dir)
			home.wolffia(t, "build", "-t", name, "--secret", "id=token,src="+filepath.Join(home.dir, "token"), dir)
			out := filepath.Join(home.dir, name+".tar")
			home.wolffia(t, "image", "export", name, out)
			saved, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			got := differences(plain, saved, t)
			if *updateDockerfiles {
				a.Files = slices.DeleteFunc(a.Files, func(f txtar.File) bool { return f.Name == "want" })
				a.Files = append(a.Files, txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				want = got
			}
			if got != want {
				t.Errorf("wolffia build makes\n%s\nwant\n%s", got, want)
			}
			switch {
			case engine == nil:
				t.Log("no Docker engine that builds: compared with what was written down only")
			case since23 && release < 23:
				t.Logf("Docker %d builds it otherwise: compared with what was written down only", release)
			default:
				if docker := differences(plain, engine(t, name, dir, home.dir), t); docker != want {
					t.Errorf("docker build makes\n%s\nwant\n%s", docker, want)
				}
			}
		})
	}
}

// A wolffiaHome is where a test builds images: a directory of the tests' user, who has subordinate
// ids.
type wolffiaHome struct {
	dir   string
	cred  *syscall.Credential // nil: this process's user
	state string              // the state directory's name
}

func buildHome(t *testing.T) *wolffiaHome {
	t.Helper()
	dir, err := os.MkdirTemp("", "wolffia-dockerfiles-")
	if err != nil {
		t.Fatal(err)
	}
	h := &wolffiaHome{dir: dir, state: "state"}
	if os.Geteuid() == 0 {
		u := testUserOrSkip(t)
		h.cred = &syscall.Credential{Uid: u[0], Gid: u[1]}
		if err := os.Chown(dir, int(u[0]), int(u[1])); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		h.wolffia(t, "image", "prune", "--all")
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "token"), []byte("secret"), 0o644)); err != nil {
		t.Fatal(err)
	}
	return h
}

// testUserOrSkip returns the ids of the tests' unprivileged user.
func testUserOrSkip(t *testing.T) (ids [2]uint32) {
	t.Helper()
	u, err := user.Lookup(testUser)
	if err != nil {
		t.Skip(err)
	}
	for i, text := range []string{u.Uid, u.Gid} {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = uint32(n)
	}
	return ids
}

// wolffia runs a command line, and returns its output.
func (h *wolffiaHome) wolffia(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), wait.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(testbin.Dir(t), "wolffia"), args...)
	cmd.Dir = h.dir
	cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "HOME=" + h.dir, "WOLFFIA_STATE_DIR=" + filepath.Join(h.dir, h.state)}
	if h.cred != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: h.cred}
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil && strings.Contains(said.String(), "root inside needs subordinate ids") {
		t.Skipf("%s", said.Bytes())
	}
	if err != nil {
		t.Fatalf("wolffia %s: %v\n%s", strings.Join(args, " "), err, said.Bytes())
	}
	return strings.TrimSpace(string(out))
}

// unpackShape writes the files of a shape, and returns what it makes.
func unpackShape(t *testing.T, a *txtar.Archive, dir string) (want string, since23 bool) {
	t.Helper()
	for _, f := range a.Files {
		if f.Name == "want" {
			want = string(f.Data)
			continue
		}
		p := filepath.Join(dir, f.Name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, f.Data, 0o644)); err != nil {
			t.Fatal(err)
		}
		since23 = since23 || f.Name == "Dockerfile" && bytes.HasPrefix(f.Data, []byte("# since 23"))
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, h := range []tar.Header{
		{Name: "in/", Typeflag: tar.TypeDir, Mode: 0o750, Uid: 7, Gid: 8},
		{Name: "in/file", Typeflag: tar.TypeReg, Mode: 0o640, Uid: 7},
		{Name: "in/link", Typeflag: tar.TypeSymlink, Linkname: "file"},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close(), os.WriteFile(filepath.Join(dir, "archive.tar.gz"), b.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	return want, since23
}

// baseArchive returns an archive of docker save of a base image.
func baseArchive(t *testing.T) []byte {
	t.Helper()
	files := slices.DeleteFunc(testimage.Busybox(t), func(f testimage.File) bool { return f.Name == "etc/passwd" })
	list, err := exec.CommandContext(t.Context(), testenv.Busybox(t), "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	for _, f := range files {
		has[f.Name] = true
	}
	for _, applet := range strings.Fields(string(list)) {
		if name := "bin/" + applet; !has[name] {
			files = append(files, testimage.File{Name: name, Link: "busybox"})
		}
	}
	dir := func(name string) testimage.File { return testimage.File{Name: name} }
	script := func(name, text string) testimage.File {
		return testimage.File{Name: "usr/local/bin/" + name, Body: "#!/bin/sh\nset -e\n" + text}
	}
	files = append(files,
		dir("etc/"), dir("usr/"), dir("usr/bin/"), dir("usr/local/"), dir("usr/local/bin/"), dir("home/"), dir("opt/"), dir("opt/old/"), dir("run/"), dir("var/"), dir("mnt/"),
		testimage.File{Name: "opt/old/file", Body: "old", Mode: 0o644}, testimage.File{Name: "etc/motd", Body: "hello\n", Mode: 0o644},
		testimage.File{Name: "etc/group", Body: "root:x:0:\ndaemon:x:1:\n", Mode: 0o644}, testimage.File{Name: "var/run", Link: "/run"},
		testimage.File{Name: "etc/passwd", Body: "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1::/:/bin/false\n", Mode: 0o644},
		testimage.File{Name: "etc/shadow", Body: "root:*:::::::\n", Mode: 0o600},
		script("go", `case $1 in mod) mkdir -p /root/go/pkg; cp go.mod /root/go/pkg;; build) test -d /root/go/pkg; mkdir -p $(dirname $3); (cat go.mod; cat $4/main.go) >$3; chmod 755 $3;; esac`),
		script("npm", `mkdir -p node_modules/dep; cp package-lock.json node_modules/.package-lock.json; echo dep >node_modules/dep/index.js`),
		script("pip", `mkdir -p /opt/venv/lib/$(cat $3) /opt/venv/bin; echo "#!/bin/sh" >/opt/venv/bin/$(cat $3); chmod 755 /opt/venv/bin/$(cat $3)`),
		script("apt-get", `mkdir -p /var/lib/apt/lists; touch /var/lib/apt/lists/x; [ $1 = update ] || { shift 3; for p; do echo $p >/usr/bin/$p; chmod 755 /usr/bin/$p; done; echo "$DEBIAN_FRONTEND" >/var/lib/apt/frontend; }`),
	)
	l := testimage.Layer(t, files...)
	manifest, err := json.Marshal([]any{map[string]any{"Config": "c.json", "RepoTags": []string{"base:1"}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		t.Fatal(err)
	}
	config := testimage.Config(t, store.Config{Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, Cmd: []string{"sh"}}, l)
	return testimage.Layer(t,
		testimage.File{Name: "c.json", Body: string(config)}, testimage.File{Name: "layer.tar", Body: string(l)},
		testimage.File{Name: "manifest.json", Body: string(manifest)},
	)
}

// dockerBuilds returns a function that builds an image with Docker's BuildKit, and the engine's
// release, such as 26. The function returns the archive of docker save. It is nil if this host has
// no engine.
func dockerBuilds(t *testing.T, base string) (build func(t *testing.T, name, dir, home string) []byte, release int) {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil, 0
	}
	e, err := dockertest.Start()
	if err != nil {
		t.Log("no Docker engine:", err)
		return nil, 0
	}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	})
	docker := func(args ...string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
		defer cancel()
		cmd := exec.CommandContext(ctx, "/usr/bin/docker", args...)
		cmd.Env = append(os.Environ(), "DOCKER_HOST=unix://"+e.Socket, "DOCKER_BUILDKIT=1")
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("docker %s: %w\n%s", strings.Join(args, " "), err, said.Bytes())
		}
		return out, err
	}
	if _, err := docker("load", "-i", base); err != nil {
		t.Log(err)
		return nil, 0
	}
	version, err := docker("version", "--format", "{{.Server.Version}}")
	if err == nil {
		_, err = fmt.Sscanf(string(version), "%d.", &release)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T, name, dir, home string) []byte {
		t.Helper()
		if out, err := docker("build", "--network", "none", "-t", name, "--secret", "id=token,src="+filepath.Join(home, "token"), dir); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		out, err := docker("save", name)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}, release
}

// flatten returns the files of an archive of docker save, a line for each, and its configuration.
func flatten(t *testing.T, archive []byte) (files map[string]string, config string) {
	t.Helper()
	members := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if members[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeSymlink {
			members[h.Name] = members[path.Join(path.Dir(h.Name), h.Linkname)]
		}
	}
	var images []struct {
		Config string
		Layers []string
	}
	if err := json.Unmarshal(members["manifest.json"], &images); err != nil || len(images) != 1 {
		t.Fatal(images, err)
	}
	files = map[string]string{}
	for _, name := range images[0].Layers {
		applyLayer(t, files, members[name])
	}
	var c struct{ Config map[string]any }
	if err := json.Unmarshal(members[images[0].Config], &c); err != nil {
		t.Fatal(err)
	}
	for k, v := range c.Config {
		if !slices.Contains([]string{"User", "Env", "Entrypoint", "Cmd", "WorkingDir", "Labels", "ExposedPorts", "Volumes", "StopSignal", "Healthcheck", "Shell"}, k) || v == nil || v == "" {
			delete(c.Config, k)
		}
	}
	text, _ := json.Marshal(c.Config)
	return files, string(text)
}

// applyLayer applies a layer to files.
func applyLayer(t *testing.T, files map[string]string, layer []byte) {
	t.Helper()
	if z, err := gzip.NewReader(bytes.NewReader(layer)); err == nil {
		if layer, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	own := map[string]string{}
	for r := tar.NewReader(bytes.NewReader(layer)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := path.Clean("/" + h.Name)[1:]
		dir, base := path.Split(name)
		if gone, ok := strings.CutPrefix(base, ".wh."); ok {
			below := dir
			if base != ".wh..wh..opq" {
				below = dir + gone + "/"
				delete(files, dir+gone)
			}
			maps.DeleteFunc(files, func(n, _ string) bool { return strings.HasPrefix(n, below) })
			continue
		}
		body, _ := io.ReadAll(r)
		text := fmt.Sprintf("%c %04o %d:%d", " hlcbd"[h.Typeflag-'0'], h.Mode&0o7777, h.Uid, h.Gid)
		switch {
		case h.Typeflag == tar.TypeSymlink:
			text = fmt.Sprintf("l %d:%d -> %s", h.Uid, h.Gid, h.Linkname)
		case h.Typeflag == tar.TypeLink:
			text = own[path.Clean("/" + h.Linkname)[1:]]
		case h.Typeflag == tar.TypeReg && len(body) < 64:
			text = strings.Replace(text, " ", "-", 1) + " " + strconv.Quote(string(body))
		case h.Typeflag == tar.TypeReg:
			text = strings.Replace(text, " ", "-", 1) + fmt.Sprintf(" %d bytes", len(body))
		}
		own[name] = text
	}
	maps.Copy(files, own)
}

// differences returns what an image has that the base has not, and what it lacks: a line for each
// file, and the configuration. What is the sandbox's own is left out.
func differences(base map[string]string, archive []byte, t *testing.T) string {
	t.Helper()
	files, config := flatten(t, archive)
	var b strings.Builder
	all := slices.Sorted(maps.Keys(files))
	for name := range base {
		if _, ok := files[name]; !ok {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	missing := 0
	for _, name := range all {
		top, _, _ := strings.Cut(name, "/")
		if slices.Contains([]string{"proc", "sys", "dev", "run", ""}, top) && !strings.HasSuffix(name, ".txt") || slices.Contains([]string{"etc/hosts", "etc/hostname", "etc/resolv.conf", "var/cache/x", "mnt/src", "mnt/tools"}, name) {
			continue
		}
		switch is := files[name]; {
		case is == "":
			if missing++; missing > 20 { // an image from nothing
				continue
			}
			fmt.Fprintf(&b, "gone %s\n", name)
		case is != base[name]:
			fmt.Fprintf(&b, "%s: %s\n", name, is)
		}
	}
	return b.String() + config + "\n"
}
