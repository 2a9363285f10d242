package rootfs

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

func TestEtcFiles(t *testing.T) {
	for _, tt := range []struct {
		name string
		kind rootKind
		net  runtime.Network
		want string
	}{
		{"the host's", hostRoot, runtime.NetworkNone, "group hostname hosts ld.so.cache nsswitch.conf os-release passwd services"},
		{"the host's, names", hostRoot, runtime.NetworkFiltered, "group hostname hosts ld.so.cache nsswitch.conf os-release passwd resolv.conf services"},
		{"the host's, network", hostRoot, runtime.NetworkHost, "group hostname hosts ld.so.cache nsswitch.conf os-release passwd resolv.conf services"},
		{"a root file system", ownRootfs, runtime.NetworkNone, "group hostname hosts nsswitch.conf passwd resolv.conf"},
		{"a root file system, names", ownRootfs, runtime.NetworkFiltered, "group hostname hosts nsswitch.conf passwd resolv.conf"},
		{"a root file system, network", ownRootfs, runtime.NetworkHost, "group hostname hosts nsswitch.conf passwd resolv.conf"},
		{"an image", storeImage, runtime.NetworkNone, "group hostname hosts nsswitch.conf passwd resolv.conf"},
		{"an image, names", storeImage, runtime.NetworkFiltered, "group hostname hosts passwd resolv.conf"},
		{"an image, network", storeImage, runtime.NetworkHost, "group hostname hosts passwd resolv.conf"},
		{"an engine's image", engineImage, runtime.NetworkNone, "group hostname hosts nsswitch.conf passwd resolv.conf"},
		{"an engine's image, names", engineImage, runtime.NetworkFiltered, "group hostname hosts passwd resolv.conf"},
		{"an engine's image, network", engineImage, runtime.NetworkHost, "group hostname hosts passwd resolv.conf"},
	} {
		c := statedir.Config{SandboxConfig: runtime.SandboxConfig{ID: "abcdefghijkl", Network: tt.net}, User: "ann", UID: 1000, GID: 1001}
		host := map[string]string{}
		if tt.kind == hostRoot {
			host = map[string]string{"ld.so.cache": "cache", "services": "services", "os-release": "ID=host\n"}
		}
		if tt.net == runtime.NetworkHost {
			host["resolv.conf"] = "nameserver 192.0.2.1\n"
		}
		got := etcFiles(tt.kind, &c, host)
		if names := strings.Join(slices.Sorted(maps.Keys(got)), " "); names != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, names, tt.want)
		}
		want := map[string]string{
			"passwd":      "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1001:ann:/home/ann:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
			"group":       "root:x:0:\nann:x:1001:\nnogroup:x:65534:\n",
			"hosts":       "127.0.0.1 localhost abcdefghijkl\n::1 localhost abcdefghijkl\n",
			"hostname":    "abcdefghijkl\n",
			"resolv.conf": "nameserver 192.0.2.1\n", "ld.so.cache": "cache", "services": "services", "os-release": "ID=host\n",
			"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
		}
		switch tt.net {
		case runtime.NetworkNone:
			want["resolv.conf"] = "nameserver 127.0.0.1\noptions timeout:0 attempts:1\n"
			want["nsswitch.conf"] = strings.Replace(want["nsswitch.conf"], "files dns", "files", 1)
			if tt.kind == storeImage {
				want["nsswitch.conf"] = "hosts: files\n"
			}
		case runtime.NetworkFiltered:
			want["resolv.conf"] = "nameserver 127.64.0.1\noptions timeout:2 attempts:2\n"
		}
		maps.DeleteFunc(want, func(name, _ string) bool { _, ok := got[name]; return !ok })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.name, diff)
		}
	}
}

// Of the host's /etc, only the named files are copied, and what is written has resolv.conf at most.
func TestHostFiles(t *testing.T) {
	for network, may := range map[runtime.Network][]string{
		runtime.NetworkNone: nil, runtime.NetworkFiltered: nil, runtime.NetworkHost: {"resolv.conf"},
	} {
		got, err := readHost(&statedir.Config{SandboxConfig: runtime.SandboxConfig{Network: network}})
		if err != nil {
			t.Fatal(err)
		}
		for name := range got {
			if !slices.Contains(may, name) {
				t.Errorf("network %s: reads /etc/%s", network, name)
			}
		}
	}
	etc := t.TempDir()
	distro := etcNames{}.found(distroFiles)
	if err := copyHost(etc, distro); err != nil {
		t.Fatal(err)
	}
	copied := 0
	err := filepath.WalkDir(etc, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, etc+"/")
		if !slices.Contains(hostFiles, name) && !slices.Contains(distro, name) {
			t.Errorf("copies /etc/%s", name)
		}
		want, err := os.ReadFile("/etc/" + name)
		if err != nil {
			return err
		}
		got, err := os.ReadFile(path)
		if err == nil && string(got) != string(want) {
			t.Errorf("the copy of /etc/%s has %d bytes, not its %d, or others", name, len(got), len(want))
		}
		copied++
		return err
	})
	if err != nil || copied == 0 {
		t.Errorf("%d files copied, %v", copied, err)
	}
}

func TestCopyFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	content := strings.Repeat("0123456789", 30_000)
	if err := errors.Join(os.WriteFile(at("from"), []byte(content), 0o600), os.WriteFile(at("empty"), nil, 0o600), unix.Mkfifo(at("fifo"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		from string
		most int
		want string
	}{
		{"from", len(content) + 1, content},
		{"from", 100_001, content[:100_001]},
		{"empty", 10, ""},
		{"/proc/self/comm", 3, "roo"}, // of rootfs.test; a file that says its size is 0
	} {
		from := tt.from
		if !filepath.IsAbs(from) {
			from = at(from)
		}
		var st unix.Stat_t
		in, err := openRegular(from, &st)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(copyFile(at("to"), in, st.Size, tt.most), unix.Close(in)); err != nil {
			t.Errorf("%s: %v", tt.from, err)
			continue
		}
		if got, err := os.ReadFile(at("to")); err != nil || string(got) != tt.want {
			t.Errorf("%s, at most %d bytes: the copy has %d bytes, %v", tt.from, tt.most, len(got), err)
		}
		if err := os.Remove(at("to")); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"fifo", "", "missing"} {
		if _, err := openRegular(at(name), new(unix.Stat_t)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q is not a regular file, and opens: %v", name, err)
		}
	}
}

func TestKindOf(t *testing.T) {
	for want, b := range map[rootKind]boot.Params{
		hostRoot:    {KeeperDir: "/state/engine"},
		ownRootfs:   {Config: statedir.Config{SandboxConfig: runtime.SandboxConfig{Rootfs: "/r"}}},
		storeImage:  {Can: launch.StoreImages, Config: statedir.Config{SandboxConfig: runtime.SandboxConfig{Image: "x", ImageID: "y"}}},
		engineImage: {KeeperDir: "/state/engine", Config: statedir.Config{SandboxConfig: runtime.SandboxConfig{Image: "x", ImageID: "y"}}},
	} {
		if got := kindOf(&b); got != want {
			t.Errorf("%+v: %d, want %d", b, got, want)
		}
	}
}

func TestWithHosts(t *testing.T) {
	for text, want := range map[string]string{
		"":               "hosts: files\n",
		"hosts: files\n": "",
		"passwd: files\nhosts: files mymachines dns\nhosts: dns\nnetworks: files": "passwd: files\nnetworks: files\nhosts: files\n",
		"# hosts\n  hosts : dns\n": "# hosts\nhosts: files\n",
	} {
		got, changed := withHosts(text, "hosts: files\n")
		if want == "" {
			want = text
		}
		if got != want || changed != (want != text) {
			t.Errorf("withHosts %q: got text %q, %q, changed %v; want got == %q and changed == want != text",
				"hosts: files\n", text, got, changed, want)
		}
	}
}
