package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"wolffia/local"
	"wolffia/runtime"
)

const (
	rootTurns    = 20
	rootPool     = 45 // of which rootTurns are claimed: fewer than half, so that nothing is started beside them
	rootImage    = "bench"
	installTurns = 5
)

// root compares sandboxes with root inside with those without, and with a chroot.
func (b *bench) root() error {
	defer func() { _ = b.command("image", "prune", "--all").Run() }() // it has files of other users
	if err := b.rootImage(); err != nil {
		b.notMeasured("root", err)
		return nil
	}
	if err := b.rootStart(""); err != nil {
		return err
	}
	if err := b.inGvisor(func(g *bench, _ string) error { return g.rootStart("gvisor: ") }); err != nil {
		return err
	}
	return b.rootInstall()
}

// rootImage builds an image of busybox.
func (b *bench) rootImage() error {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return err
	}
	return b.buildImage(rootImage, "FROM scratch\nCOPY busybox /bin/true\n", func(dir string) error {
		return outputError(exec.Command("cp", "-L", busybox, filepath.Join(dir, "busybox")))
	})
}

// buildImage builds an image of a Dockerfile in a context that fill fills.
func (b *bench) buildImage(name, dockerfile string, fill func(dir string) error) error {
	dir, err := os.MkdirTemp("", "wolffia-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(dockerfile), 0o644), fill(dir)); err != nil {
		return err
	}
	cmd := b.command("build", "-q", "-t", name, dir)
	cmd.Stderr = nil
	return outputError(cmd)
}

// rootStart compares the start of a sandbox on an image with and without root inside, cold and from pools.
func (b *bench) rootStart(backend string) error {
	config := func(root bool) *runtime.SandboxConfig {
		c := b.config()
		c.Image, c.Root = rootImage, root
		return c
	}
	kinds := []bool{false, true}
	measure := func() (start, destroy []times, err error) {
		start, destroy = make([]times, len(kinds)), make([]times, len(kinds))
		for range rootTurns {
			for i, root := range kinds {
				s, d, err := b.lifeOf(config(root), func(id string) error { return b.execIn(id, "true") })
				if err != nil {
					return nil, nil, err
				}
				start[i], destroy[i] = append(start[i], s), append(destroy[i], d)
			}
		}
		return start, destroy, nil
	}
	fmt.Fprintf(b.table, "%son an image, Go API\twithout --root p50\twith --root p50\tratio\tbar\t\n", backend)
	start, destroy, err := measure()
	if err != nil {
		return err
	}
	b.ratio(backend+"cold: create, mount the tree, true", 1.5, start...)
	b.ratio(backend+"destroy", 0, destroy...)
	if os.Geteuid() == 0 {
		b.notMeasured(backend+"from a pool", errNotRoot)
		return nil
	}
	turns := func() error { start, _, err = measure(); return err }
	for _, root := range kinds {
		p, err := b.rt.StartPool(b.ctx, config(root), local.PoolOptions{Size: rootPool})
		if err != nil {
			return err
		}
		defer func() { _ = b.rt.StopPool(b.ctx, p.Shape) }()
		next := turns
		turns = func() error { return b.allTaken(p.Shape, rootTurns, next) }
	}
	if err := turns(); err != nil {
		return err
	}
	b.ratio(backend+"from a pool: create, mount the tree, true", 1.5, start...)
	return nil
}

// installed are small packages that many install.
const installed = "bc bzip2 cpio ed file gawk jq less lsof m4 nano netcat-openbsd patch procps psmisc rsync tree unzip xz-utils zip"

// prepareDebian makes $1/root of the Debian that sudo make bare keeps, with the files of the packages $2 in apt's cache,
// and $1/root.tar of it.
const prepareDebian = `set -eu
. /etc/os-release
base=$(find "${XDG_CACHE_HOME:-$HOME/.cache}/wolffia/bare" -maxdepth 1 -name "$VERSION_CODENAME-*" ! -name '*.new' | head -n 1)
[ -n "$base" ] || { echo "there is no bare $VERSION_CODENAME: run sudo make bare" >&2; exit 1; }
cp -a --reflink=auto "$base" "$1/root"
apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Component: main' |
	grep " $VERSION_CODENAME" | sort -u >"$1/root/etc/apt/sources.list"
apt-config dump Acquire | grep -e '^Acquire::http' -e '^Acquire::https' >"$1/root/etc/apt/apt.conf.d/host" || true
cp -L /etc/resolv.conf /etc/hosts -t "$1/root/etc"
cp -L "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$1/root/etc/ssl/certs/ca-certificates.crt"
rm -f "$1/root/etc/apt/apt.conf.d/docker-clean"
chroot "$1/root" apt-get update -q
chroot "$1/root" apt-get install -y -q --no-install-recommends --download-only $2
tar -C "$1/root" --numeric-owner --exclude './dev/*' -cf "$1/root.tar" .
`

// rootInstall compares the installation of packages, whose files are there, with the same in a chroot of root's.
func (b *bench) rootInstall() error {
	const what = "apt-get install of 20 packages"
	if os.Geteuid() != 0 {
		b.notMeasured(what, errors.New("a chroot needs root"))
		return nil
	}
	dir, err := os.MkdirTemp("", "wolffia-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := outputError(exec.Command("sh", "-c", prepareDebian, "sh", dir, installed)); err != nil {
		b.notMeasured(what, err)
		return nil
	}
	err = b.buildImage("debian", "FROM scratch\nADD root.tar /\n", func(to string) error {
		return os.Rename(filepath.Join(dir, "root.tar"), filepath.Join(to, "root.tar"))
	})
	if err != nil {
		return err
	}
	install := append([]string{"env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "apt-get", "install", "-y", "-q", "--no-install-recommends", "--no-download"}, strings.Fields(installed)...)
	fresh := filepath.Join(dir, "fresh")
	run := func(backend string) func() *exec.Cmd {
		return func() *exec.Cmd {
			return b.command(append([]string{"run", "-q", "--root", "--runtime", backend, "--no-codebase", "--image", "debian", "--"}, install...)...)
		}
	}
	ways := []func() *exec.Cmd{
		func() *exec.Cmd {
			return exec.Command("unshare", append([]string{"--mount", "--pid", "--fork", "--kill-child", "sh", "-c", `mount -t proc proc "$0/proc" && exec chroot "$0" "$@"`, fresh}, install...)...)
		},
		run("bwrap"), run("gvisor"),
	}
	t := make([]times, len(ways))
	for range installTurns {
		if err := outputError(exec.Command("cp", "-a", "--reflink=auto", filepath.Join(dir, "root"), fresh)); err != nil {
			return err
		}
		for i, way := range ways {
			cmd := way()
			cmd.Stderr = nil
			if err := outputError(exec.Command("sync")); err != nil {
				return err
			}
			d, err := took(func() error { return outputError(cmd) })
			if err != nil {
				return err
			}
			t[i] = append(t[i], d)
		}
		if err := os.RemoveAll(fresh); err != nil {
			return err
		}
	}
	fmt.Fprintf(b.table, "%s, whole process\tchroot as root p50\twith --root p50\tratio\tbar\t\n", what)
	b.ratio("on an image", 1.3, t[0], t[1])
	b.ratio("gvisor: on an image", 0, t[0], t[2])
	return nil
}
