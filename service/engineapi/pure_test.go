package engineapi

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"wolffia/runtime"
	"wolffia/service/container"
)

// What a client asks for and does not exist here is never dropped.
func TestDecode(t *testing.T) {
	for text, refused := range map[string]bool{
		`{"Image":"x","HostConfig":{"Privileged":false,"CapAdd":null,"Ulimits":[],"ConsoleSize":[0,0],"RestartPolicy":{"Name":"no","MaximumRetryCount":0}}}`: false,
		`{"Image":"x","NetworkingConfig":{"EndpointsConfig":{"default":{"Links":null,"IPAddress":""}}}}`:                                                     false,
		`{"Image":"x","HostConfig":{"MemorySwappiness":-1,"LogConfig":{"Type":"json-file"}}}`:                                                                false,
		`{"Image":"x","HostConfig":{"Privileged":true}}`:                                                                                                     true,
		`{"Image":"x","HostConfig":{"RestartPolicy":{"Name":"always"}}}`:                                                                                     true,
		`{"Image":"x","NetworkingConfig":{"EndpointsConfig":{"mine":{"Aliases":["db"]}}}}`:                                                                   true,
		`{"Image":"x","Hostname":"h"}`:                   true,
		`{"Image":"x","hostconfig":{"privileged":true}}`: true,
		`{"Image":"x","Future":{"Option":"on"}}`:         true,
		`{"Image":"x","HostConfig":{"Mounts":[{"Type":"bind","Source":"/a","Target":"/b","BindOptions":{"Propagation":"rshared"}}]}}`: true,
		`{"Image":"x","HostConfig":{"Mounts":[{"Type":"volume","Target":"/b","Consistency":""}]}}`:                                    false,
		`{"Image":"x","HostConfig":{"PortBindings":{"80/tcp":[{"HostIp":"","HostPort":"","Future":1}]}}}`:                             true,
		`{"Image":"x","HostConfig":{"Tmpfs":{"/run":""}}}`:                                                                            true,
		`{"Image":"x","HostConfig":{"Sysctls":{"net.ipv4.ip_forward":""}}}`:                                                           true,
		`{"Image":"x","NetworkingConfig":{"EndpointsConfig":{"mine":{}}}}`:                                                            true,
	} {
		err := decode([]byte(text), new(container.Config))
		if errors.Is(err, runtime.ErrUnsupported) != refused || !refused && err != nil {
			t.Errorf("%s: %v, want refused: %v", text, err, refused)
		}
	}
}

func TestFind(t *testing.T) {
	for path, want := range map[string][2]string{
		"/v1.41/containers/json":             {"GET containers/json", ""},
		"/containers/abc/json":               {"GET containers/*/json", "abc"},
		"/v1.24/images/host:5000/a/b:1/json": {"GET images/*/json", "host:5000/a/b:1"},
		"/v1.41/networks":                    {"", ""},
		"/v1.41/containers/abc/top":          {"", ""},
		"/_ping":                             {"GET _ping", ""},
	} {
		c, pattern, ref := find("GET", path)
		if pattern != want[0] || ref != want[1] || (c == nil) != (pattern == "") {
			t.Errorf("%s: got %q %q, want %q", path, pattern, ref, want)
		}
	}
}

// A build's context never leads out of its directory.
func TestUnpackHostile(t *testing.T) {
	outside := t.TempDir()
	for name, entries := range map[string][]tar.Header{
		"parent":    {{Name: "../x", Typeflag: tar.TypeReg, Size: 1}},
		"absolute":  {{Name: outside + "/x", Typeflag: tar.TypeReg, Size: 1}},
		"link":      {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: outside}, {Name: "l/x", Typeflag: tar.TypeReg, Size: 1}},
		"hard link": {{Name: "l", Typeflag: tar.TypeLink, Linkname: "../../etc/passwd"}},
		"device":    {{Name: "d", Typeflag: tar.TypeChar}},
	} {
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		for i := range entries {
			entries[i].Mode = 0o600
			if err := w.WriteHeader(&entries[i]); err != nil {
				t.Fatal(err)
			}
			_, _ = w.Write(make([]byte, entries[i].Size))
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := unpack(t.TempDir(), &archive); !errors.Is(err, runtime.ErrInvalid) {
			t.Errorf("%s: got %v, want runtime.ErrInvalid", name, err)
		}
	}
	if left, err := filepath.Glob(outside + "/*"); err != nil || len(left) > 0 {
		t.Errorf("outside: %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(outside), "x")); err == nil {
		t.Error("a file was written above the context")
	}
}
