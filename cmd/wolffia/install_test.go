package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"wolffia/internal/test/suite"
)

// What is installed can be used by all, whatever the umask of who installs it.
func TestInstall(t *testing.T) {
	b := suite.New(t)
	dir := t.TempDir()
	script, err := os.ReadFile("../../scripts/install")
	b.OK(err)
	for name, text := range map[string]string{
		"scripts/install": string(script), "program": "#!/bin/sh\necho version\n", ".cache/share/man/man1/wolffia.1": "",
	} {
		b.OK(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		b.OK(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	cmd := exec.CommandContext(b.Ctx, "sh", "-c", "umask 077; exec sh scripts/install ./program")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PREFIX="+dir+"/prefix", "DESTDIR=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("CombinedOutput: got err %v, out %s; want err == nil", err, out)
	}
	for name, want := range map[string]os.FileMode{
		"": 0o755, "bin": 0o755, "bin/wolffia": 0o755, "share": 0o755, "share/man/man1": 0o755, "share/man/man1/wolffia.1": 0o644,
	} {
		st, err := os.Stat(filepath.Join(dir, "prefix", name))
		b.OK(err)
		if got := st.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
}
