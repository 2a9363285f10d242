package volume

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"wolffia/runtime"
)

// Each cache: what it mounts where, the variables, and the file that shows that it is of use.
func TestCaches(t *testing.T) {
	const at = "/var/cache/wolffia/"
	tests := map[string]struct {
		mounts map[string]string // by what they cache
		env    map[string]string
		mark   string
	}{
		"go":     {map[string]string{"go": at + "go"}, map[string]string{"GOCACHE": at + "go/build", "GOMODCACHE": at + "go/mod"}, "go.mod"},
		"npm":    {map[string]string{"npm": at + "npm"}, map[string]string{"npm_config_cache": at + "npm"}, "package-lock.json"},
		"pnpm":   {map[string]string{"pnpm": at + "pnpm"}, map[string]string{"npm_config_store_dir": at + "pnpm", "pnpm_config_store_dir": at + "pnpm"}, "pnpm-lock.yaml"},
		"yarn":   {map[string]string{"yarn": at + "yarn"}, map[string]string{"YARN_CACHE_FOLDER": at + "yarn/v1", "YARN_GLOBAL_FOLDER": at + "yarn/berry"}, "yarn.lock"},
		"pip":    {map[string]string{"pip": at + "pip"}, map[string]string{"PIP_CACHE_DIR": at + "pip"}, "requirements.txt"},
		"uv":     {map[string]string{"uv": at + "uv"}, map[string]string{"UV_CACHE_DIR": at + "uv", "UV_LINK_MODE": "copy"}, "uv.lock"},
		"cargo":  {map[string]string{"cargo": "~/.cargo/registry", "cargo-git": "~/.cargo/git"}, nil, "Cargo.toml"},
		"maven":  {map[string]string{"maven": "~/.m2/repository"}, nil, "pom.xml"},
		"gradle": {map[string]string{"gradle": at + "gradle"}, map[string]string{"GRADLE_USER_HOME": at + "gradle"}, "build.gradle.kts"},
		"ccache": {map[string]string{"ccache": at + "ccache"}, map[string]string{"CCACHE_DIR": at + "ccache"}, "CMakeLists.txt"},
	}
	if names := slices.Sorted(maps.Keys(tests)); !slices.Equal(names, slices.Sorted(slices.Values(Caches()))) {
		t.Errorf("%v has other rows than %v", names, Caches())
	}
	for name, test := range tests {
		codebase := t.TempDir()
		for _, shared := range []bool{false, true} {
			c := &runtime.SandboxConfig{CodebasePath: codebase}
			if err := AddCache(c, name, shared, ""); err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, v := range c.Volumes {
				got[v.Cache] = v.Target
				if want := map[bool]string{true: "cache-" + v.Cache}[shared]; v.Name != want || v.ReadOnly {
					t.Errorf("%s: %+v; want the name %q", name, v, want)
				}
			}
			if diff := cmp.Diff(test.mounts, got) + cmp.Diff(test.env, c.Env); diff != "" {
				t.Errorf(`%s: got %s, want ""`, name, diff)
			}
			if err := c.Validate(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		found := find(func(file string) bool { return file == test.mark }, func(string) bool { return true })
		if !slices.Equal(found, []string{name}) && !(name == "gradle" && found == nil) {
			t.Errorf("%s alone shows %v; want %s", test.mark, found, name)
		}
	}
	if err := AddCache(new(runtime.SandboxConfig), "nonsense", false, ""); err == nil {
		t.Error("an unknown cache is no error")
	}
}

func TestCachesHeed(t *testing.T) {
	codebase := t.TempDir()
	c := &runtime.SandboxConfig{CodebasePath: codebase, Env: map[string]string{"GOCACHE": "/mine", "CARGO_HOME": "/opt/cargo", "A": "1"}}
	for _, name := range []string{"go", "cargo"} {
		if err := AddCache(c, name, false, ""); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{"GOCACHE": "/mine", "GOMODCACHE": "/var/cache/wolffia/go/mod", "CARGO_HOME": "/opt/cargo", "A": "1"}
	if diff := cmp.Diff(want, c.Env); diff != "" {
		t.Error("variables of the user:", diff)
	}
	if c.Volumes[1].Target != "/opt/cargo/registry" || c.Volumes[2].Target != "/opt/cargo/git" {
		t.Error(c.Volumes)
	}
	// A project with its own cache of a later yarn keeps that.
	if err := os.WriteFile(filepath.Join(codebase, ".yarnrc.yml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c = &runtime.SandboxConfig{CodebasePath: codebase}
	if err := AddCache(c, "yarn", false, ""); err != nil || c.Env["YARN_CACHE_FOLDER"] != "" || c.Env["YARN_GLOBAL_FOLDER"] == "" {
		t.Error(c.Env, err)
	}
}

func TestFind(t *testing.T) {
	for _, test := range []struct {
		files   []string
		ccache  bool
		want    []string
		because string
	}{
		{nil, true, nil, "nothing is there"},
		{[]string{"package.json"}, false, []string{"npm"}, "it comes with node"},
		{[]string{"package.json", "pnpm-lock.yaml"}, false, []string{"pnpm"}, "the lock file says so"},
		{[]string{"package.json", "yarn.lock"}, false, []string{"yarn"}, "the lock file says so"},
		{[]string{"Makefile", "go.mod"}, false, []string{"go"}, "ccache is not installed"},
		{[]string{"Makefile", "go.mod"}, true, []string{"go", "ccache"}, "ccache is installed"},
		{[]string{"pyproject.toml", "uv.lock", "Cargo.toml"}, false, []string{"pip", "uv", "cargo"}, "each has its file"},
	} {
		got := find(func(name string) bool { return slices.Contains(test.files, name) }, func(string) bool { return test.ccache })
		if !slices.Equal(got, test.want) {
			t.Errorf("%v: %v; want %v: %s", test.files, got, test.want, test.because)
		}
	}
	if got := FindCaches(t.TempDir()); got != nil {
		t.Error(got)
	}
}

// Names differ by codebase, and fit.
func TestCacheName(t *testing.T) {
	a, b := CacheName("cargo-git", "/a", false), CacheName("cargo-git", "/b", false)
	if a == b || !runtime.IsVolumeName(a) || CacheName("go", "", false) != "cache-go" {
		t.Error(a, b)
	}
}
