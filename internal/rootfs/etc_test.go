package rootfs

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"wolffia/internal/boot"
	"wolffia/internal/statedir"
	"wolffia/runtime"
)

func TestEtcFiles(t *testing.T) {
	for _, tt := range []struct {
		name string
		kind rootKind
		net  runtime.Network
		want string
	}{
		{"the host's", hostRoot, runtime.NetworkNone, "group hostname hosts ld.so.cache nsswitch.conf os-release passwd services"},
		{"the host's, network", hostRoot, runtime.NetworkHost, "group hostname hosts ld.so.cache nsswitch.conf os-release passwd resolv.conf services"},
		{"a root file system", ownRootfs, runtime.NetworkNone, "group hostname hosts nsswitch.conf passwd"},
		{"a root file system, network", ownRootfs, runtime.NetworkHost, "group hostname hosts nsswitch.conf passwd resolv.conf"},
		{"an image", storeImage, runtime.NetworkNone, "group hostname hosts passwd"},
		{"an image, network", storeImage, runtime.NetworkHost, "group hostname hosts passwd resolv.conf"},
		{"an engine's image", engineImage, runtime.NetworkNone, "group hostname hosts passwd"},
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
		maps.DeleteFunc(want, func(name, _ string) bool { _, ok := got[name]; return !ok })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.name, diff)
		}
	}
}

// Of the host's /etc, only the named files are read.
func TestReadHost(t *testing.T) {
	for _, tt := range []struct {
		kind rootKind
		net  runtime.Network
		may  []string
	}{
		{hostRoot, runtime.NetworkNone, hostFiles},
		{hostRoot, runtime.NetworkHost, append([]string{"resolv.conf"}, hostFiles...)},
		{ownRootfs, runtime.NetworkNone, nil},
		{storeImage, runtime.NetworkHost, []string{"resolv.conf"}},
		{engineImage, runtime.NetworkHost, []string{"resolv.conf"}},
	} {
		got, err := readHost(tt.kind, &statedir.Config{SandboxConfig: runtime.SandboxConfig{Network: tt.net}})
		if err != nil {
			t.Fatal(err)
		}
		for name := range got {
			if !slices.Contains(tt.may, name) {
				t.Errorf("%d, network %s: reads /etc/%s", tt.kind, tt.net, name)
			}
		}
		if tt.kind == hostRoot && got["services"] == "" && got["os-release"] == "" && got["ld.so.cache"] == "" {
			t.Errorf("the host's files: %v", got)
		}
	}
}

func TestKindOf(t *testing.T) {
	for want, b := range map[rootKind]boot.Params{
		hostRoot:    {Engine: "/state/engine"},
		ownRootfs:   {Config: statedir.Config{SandboxConfig: runtime.SandboxConfig{Rootfs: "/r"}}},
		storeImage:  {Config: statedir.Config{SandboxConfig: runtime.SandboxConfig{Image: "x", ImageID: "y"}}},
		engineImage: {Engine: "/state/engine", Config: statedir.Config{SandboxConfig: runtime.SandboxConfig{Image: "x", ImageID: "y"}}},
	} {
		if got := kindOf(&b); got != want {
			t.Errorf("%+v: %d, want %d", b, got, want)
		}
	}
}
