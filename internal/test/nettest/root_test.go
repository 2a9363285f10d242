package nettest

import (
	"debug/elf"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/testenv"
)

// fetch gets http://NAME/hello, in a sandbox on whose root directory there is nothing but this
// program.
func fetch(name string) error {
	answer, err := http.Get("http://" + name + "/hello")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}

// TestRootWithoutResolver: names are found in root directories that have no resolv.conf, one of
// their own, or a link.
func TestRootWithoutResolver(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	if !alone(t) {
		return
	}
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if f, err := elf.Open("/proc/self/exe"); err != nil || f.Section(".interp") != nil {
		t.Skipf("the test's program needs libraries, which a bare root directory lacks (%v)", err)
	}
	w := newWorld(t)
	const elsewhere = "nameserver 10.1.2.3\n"
	for name, furnish := range map[string]func(etc string) error{
		"none": func(etc string) error { return os.Remove(etc) },
		"file": func(etc string) error { return os.WriteFile(etc+"/resolv.conf", []byte(elsewhere), 0o644) },
		"dangling link": func(etc string) error {
			return os.Symlink("../run/systemd/resolve/stub-resolv.conf", etc+"/resolv.conf")
		},
		"link": func(etc string) error {
			if err := os.WriteFile(etc+"/resolv.real", []byte(elsewhere), 0o644); err != nil {
				return err
			}
			return os.Symlink("/etc/resolv.real", etc+"/resolv.conf")
		},
	} {
		root := filepath.Join(filepath.Dir(w.conf), "root", name)
		etc := filepath.Join(root, "etc")
		if err := os.MkdirAll(etc, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "program"), program, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := furnish(etc); err != nil {
			t.Fatal(err)
		}
		for _, backend := range []string{"bwrap", "gvisor"} {
			t.Run(name+" in "+backend, func(t *testing.T) {
				if backend == "gvisor" {
					testenv.Need(t, probe.Runsc)
				}
				out, said, code := w.call(t, "run", "--no-config", "--no-codebase", "--runtime", backend, "--rootfs", root, "--allow-host", "a.ok.example",
					"-e", stage+"=fetch a.ok.example", "-e", "HTTP_PROXY=", "-e", "http_proxy=", "--", "/program")
				if code != 0 || strings.TrimSpace(out) != "hello from a.ok.example" {
					t.Errorf("exit code %d: %s%s", code, out, said)
				}
			})
		}
	}
}
