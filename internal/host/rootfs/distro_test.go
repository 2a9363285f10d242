package rootfs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wolffia/runtime"
	"wolffia/runtime/launch"
)

func TestSettingsOnly(t *testing.T) {
	for name, want := range map[string]bool{
		"20-tokenizer.ini": true, "php.ini": true, "conf.d/x.conf": true, "privateer.conf": true,
		"api-token": false, "db_password.conf": false, "secrets.ini": false, "conf.d/server.key": false, "settings.xml": false, "NPMRC": false, "private/x": false, "credentials": false,
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := settingsOnly(dir); got != want {
			t.Errorf("a directory with %s: %t, want %t", name, got, want)
		}
		if err := os.Chmod(file, 0o640); err != nil {
			t.Fatal(err)
		}
		if settingsOnly(dir) {
			t.Errorf("a directory with %s, which not all may read, is shown", name)
		}
	}
	if settingsOnly(filepath.Join(t.TempDir(), "missing")) {
		t.Error("a missing directory is shown")
	}
}

// No pattern of a file names credentials: found files are not asked for that.
func TestPlainCode(t *testing.T) {
	for code, want := range map[string]bool{
		"options(repos = c(CRAN = 'https://cloud.r-project.org'))": true, "": true,
		"options(repos = 'https://ann:x1@own.example')": false, "Sys.setenv(GITHUB_PAT = 'x1')": false,
		"my.Token <- 'x1'": false, strings.Repeat("#", 70<<10): false,
	} {
		file := filepath.Join(t.TempDir(), "code")
		if err := os.WriteFile(file, []byte(code), 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := plainCode(int(f.Fd()), int64(len(code))); got != want {
			t.Errorf("%.60q: %t, want %t", code, got, want)
		}
		_ = f.Close()
	}
}

func TestDistroFiles(t *testing.T) {
	for _, pattern := range distroFiles {
		if base := filepath.Base(pattern); strings.Contains(base, "*") || namesCredential(base) {
			t.Errorf("%s may be a file with credentials", pattern)
		}
	}
}

func TestEtcNames(t *testing.T) {
	names := etcNames{"": {"java-1.conf", "java-17", "java-21", "javax", "x"}, "php/": {"7", "8.2"}}
	for pattern, want := range map[string][]string{
		"java-*": {"java-1.conf", "java-17", "java-21"}, "java-*.conf": {"java-1.conf"}, "java-*17/lib": {"java-17/lib"},
		"php/*/cli": {"php/7/cli", "php/8.2/cli"}, "fonts": {"fonts"}, "none*": nil, "none/*/x": nil,
	} {
		if got := names.found([]string{pattern}); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
	if got := (etcNames{}).found([]string{"*"}); !slices.Contains(got, "passwd") || slices.Contains(got, ".") {
		t.Errorf("/etc has %q", got)
	}
}

func TestDistroBesideMounts(t *testing.T) {
	for target, want := range map[string]bool{"/etc/fonts": true, "/etc/fonts/conf.d": true, "/etc": true, "/etc/fonts2": false, "/var": false} {
		if got := meets([]runtime.Mount{{Target: target}}, "/etc/fonts"); got != want {
			t.Errorf("a mount at %s: %t, want %t", target, got, want)
		}
	}
}

// What is in /var is one mount for the backend, unless something of the user's there is in its way.
func TestJoinable(t *testing.T) {
	root := []launch.Mount{
		{Source: "/usr", Target: "/usr"},
		{Kind: launch.Symlink, Source: "../tmp", Target: "/var/tmp"},
		{Source: "/var/lib/dpkg", Target: "/var/lib/dpkg"},
		{Source: "/var/lib/aspell", Target: "/var/lib/aspell"},
	}
	bind := func(target string) []runtime.Mount { return []runtime.Mount{{Source: "/x", Target: target}} }
	config := func(names ...string) *runtime.SandboxConfig { return &runtime.SandboxConfig{CodebaseNames: names} }
	for name, tt := range map[string]struct {
		spec          launch.Spec
		joined, users int
	}{
		"nothing of the user's":   {launch.Spec{Root: root, Binds: bind("/vary/x")}, 3, 0},
		"a mount":                 {launch.Spec{Root: root, Binds: bind("/var/cache/x")}, 3, 1},
		"a mount at all":          {launch.Spec{Root: root, Binds: bind("/var")}, 0, 0},
		"a mount around":          {launch.Spec{Root: root, Binds: bind("/var/lib")}, 0, 0},
		"a mount in one":          {launch.Spec{Root: root, Binds: bind("/var/lib/dpkg/x")}, 0, 0},
		"no codebase, a place":    {launch.Spec{Root: root, Scratch: []string{"/var/lib/jenkins/x"}}, 0, 0},
		"a codebase's other name": {launch.Spec{Root: root, Config: config("/var/code")}, 0, 0},
		"one directory":           {launch.Spec{Root: root[:3]}, 0, 0},
	} {
		tt.spec.Home = "/home/ann"
		rest, joined, users := joinable(&tt.spec)
		if len(joined) != tt.joined || len(users) != tt.users || len(rest)+len(joined) != len(tt.spec.Root) {
			t.Errorf("%s: joined %v, want %d; users %v, want %d; rest %v", name, joined, tt.joined, users, tt.users, rest)
		}
	}
}

// A socket in a directory that is shown in /var is found whether or not that is joined.
func TestJoinedIsShown(t *testing.T) {
	shown := shownOfHost(&launch.Spec{Root: []launch.Mount{{Source: "/m/var", Target: "/var"}}, HostVar: []string{"/var/lib/dpkg"}})
	if !slices.Contains(shown, runtime.Mount{Source: "/var/lib/dpkg", Target: "/var/lib/dpkg"}) {
		t.Errorf("%v is shown of the host", shown)
	}
}
