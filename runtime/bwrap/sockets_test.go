package bwrap_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
)

// hostWithDaemons makes the root directory of a host that has Nix, in a mount namespace
// of its own, with sockets where everybody may connect, and runs $2 there. $1 is an
// empty directory. As on NixOS, a program of /usr is a link into the store.
const hostWithDaemons = `set -e
umask 022
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
for d in dev proc sys tmp run; do mount --rbind /$d "$1/root/$d"; done
cd "$1/root"
pivot_root . .
umount -l .
cd /
mkdir -p /nix/store/hello/bin /nix/var/nix/daemon-socket /usr/local/bin /usr/local/var/run
printf '#!/bin/sh\necho hello\n' >/nix/store/hello/bin/hello
chmod -R a+rX /nix /usr/local/var
chmod a+x /nix/store/hello/bin/hello
ln -s /nix/store/hello/bin/hello /usr/local/bin/nix-hello
exec python3 -ISBc '
import os, socket, subprocess, sys
listening = []
for path in "/nix/var/nix/daemon-socket/socket", "/usr/local/var/run/daemon":
    s = socket.socket(socket.AF_UNIX)
    s.bind(path)
    os.chmod(path, 0o666)
    s.listen()
    listening.append(s)
sys.exit(subprocess.run(["wolffia", "run", "--no-codebase", "--", "sh", "-c", sys.argv[1]]).returncode)
' "$2"
`

const callDaemons = `nix-hello
ls /nix
python3 -ISBc '
import socket
for path in "/nix/var/nix/daemon-socket/socket", "/usr/local/var/run/daemon":
    try: socket.socket(socket.AF_UNIX).connect(path)
    except OSError as e: print(type(e).__name__)
    else: print(path, "answers")
'`

// What listens on the host below what every sandbox sees of it is not there inside; the
// programs of Nix are.
func TestDaemonsOfTheHost(t *testing.T) {
	need(t)
	testenv.Root(t)
	bin, dir, state := testbin.Dir(t), t.TempDir(), shimtest.PublicDir(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", hostWithDaemons, "sh", dir, callDaemons)
	c.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "WOLFFIA_STATE_DIR="+filepath.Join(state, "state"))
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	c.Stderr = os.Stderr
	got, err := c.Output()
	const want = "hello\nstore\nFileNotFoundError\nFileNotFoundError\n"
	if err != nil || string(got) != want {
		t.Errorf("%v, %q; want %q", err, got, want)
	}
}
