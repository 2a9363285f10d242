package ops_test

import (
	"testing"

	"wolffia/internal/fileclient"
	"wolffia/ops"
)

func TestWithin(t *testing.T) {
	for _, c := range []struct{ name, cwd, dir, want string }{
		{"a", "/w", "/w", "a"},
		{"a/", "/w", "/w", "a"},
		{"", "/w", "/w", "."},
		{"../w/b", "/w", "/w", "b"},
		{"/w", "/", "/w", "."},
		{"a", "/", "/", "a"},
		{"/", "/", "/", "."},
		{"a", "/w/sub", "/w", "sub/a"},
		{"..", "/w", "/w", ""},
		{"/wx", "/w", "/w", ""},
		{"/etc", "/w", "/w", ""},
	} {
		rel, ok := ops.Within(c.name, c.cwd, c.dir)
		if ok != (c.want != "") || ok && rel != c.want {
			t.Errorf(`ops.Within: got c %+v, rel %q, ok %v; want ok == c.want != "" and (not ok or rel == %q)`, c, rel, ok, c.want)
		}
	}
}

func TestPaths(t *testing.T) {
	f := &ops.Files{Client: fileclient.New(nil), Sandbox: "s", MountPoint: "/w"}
	for name, want := range map[string]string{"a": "/w/a", "/a/../b": "/b", ".": "/w", "": "", "a\x00": "", "\xff": ""} {
		if got, err := f.Path(name); got != want || (err == nil) != (want != "") {
			t.Errorf(`%q: got %q, err %v; want got == %q and (err == nil) == want != ""`, name, got, err, want)
		}
	}
	for name, want := range map[string]string{"a": "/w/a", "/a/../b": "/b", ".": "", "": "", "a/": "", "/": "", "/w": ""} {
		if got, err := f.FilePath(name); got != want || (err == nil) != (want != "") {
			t.Errorf("file %q: %q, %v", name, got, err)
		}
	}
}
