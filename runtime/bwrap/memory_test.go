package bwrap_test

import (
	"testing"

	"wolffia/runtime"
)

// names makes empty files in each directory until the kernel refuses, or has allowed 50,000. It prints the reason, and whether there
// were at most one for each 2048 bytes of the file system; then it removes them.
const names = `
import os, sys
for dir in sys.argv[1:]:
    fs, n, said = os.statvfs(dir), 0, 'no limit was met'
    try:
        for n in range(50000):
            os.close(os.open(f'{dir}/.n{n}', os.O_CREAT | os.O_WRONLY))
    except OSError as e:
        said = os.strerror(e.errno)
    size = fs.f_blocks * fs.f_frsize
    print(said, n <= size / 2048, oct(os.stat(dir).st_mode & 0o7777), os.access(dir, os.W_OK))
    for i in range(n):
        os.unlink(f'{dir}/.n{i}')
`

// With a limit of memory the kernel's own memory for the names in directories in memory is bounded too.
func TestNamesInMemory(t *testing.T) {
	need(t)
	rt := backend.Fresh(t)
	id := started(t, rt, &runtime.SandboxConfig{MountPoint: "/w", Resources: runtime.Resources{Memory: 128 << 20, BestEffort: true}})
	const script = `exec /usr/bin/python3 -I -S -c "$1" /tmp "$HOME" /dev/shm /run/.w /w`
	r, err := rt.Exec(t.Context(), id, &runtime.ExecRequest{Command: []string{"sh", "-c", script, "sh", names}})
	if err != nil {
		t.Fatal(err)
	}
	const refused = "No space left on device True "
	const want = refused + "0o1777 True\n" + refused + "0o700 True\n" + refused + "0o1777 True\n" + refused + "0o700 True\n" + refused + "0o755 True\n"
	if got := string(r.Stdout); got != want {
		t.Errorf("got:\n%s%swant:\n%s", got, r.Stderr, want)
	}
}
