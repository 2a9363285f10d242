package rootfs

import (
	"os"
	"path/filepath"
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

func TestDistroBesideMounts(t *testing.T) {
	for target, want := range map[string]bool{"/etc/fonts": true, "/etc/fonts/conf.d": true, "/etc": true, "/etc/fonts2": false, "/var": false} {
		if got := meets([]runtime.Mount{{Target: target}}, "/etc/fonts"); got != want {
			t.Errorf("a mount at %s: %t, want %t", target, got, want)
		}
	}
}
