package rootfs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wolffia/runtime"
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
