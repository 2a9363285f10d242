package toolchain

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// BenchmarkFind looks at the caller's PATH.
func BenchmarkFind(b *testing.B) {
	benchmark(b, &Host{FS: HostFS(), Path: os.Getenv("PATH"), Home: os.Getenv("HOME"), Getenv: os.Getenv})
}

// BenchmarkFindPyenv looks at a PATH with nine versions of Python of pyenv's, and rust.
func BenchmarkFindPyenv(b *testing.B) {
	home := b.TempDir()
	pyenv, cargo := filepath.Join(home, ".pyenv"), filepath.Join(home, ".cargo/bin")
	files := []string{pyenv + "/version", pyenv + "/bin/pyenv", pyenv + "/libexec/pyenv", home + "/.rustup/settings.toml", home + "/.rustup/toolchains/stable/bin/rustc", cargo + "/rustup"}
	for i := range 130 {
		files = append(files, pyenv+"/shims/program"+strconv.Itoa(i))
	}
	for i := range 9 {
		version := pyenv + "/versions/3." + strconv.Itoa(i)
		files = append(files, version+"/bin/python3.x", version+"/lib/x", version+"/include/x", version+"/share/x")
	}
	for _, name := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o755); err != nil {
			b.Fatal(err)
		}
	}
	for i := range 9 {
		if err := os.Symlink("python3.x", pyenv+"/versions/3."+strconv.Itoa(i)+"/bin/python3"); err != nil {
			b.Fatal(err)
		}
	}
	benchmark(b, &Host{
		FS: HostFS(), Home: home, Getenv: func(string) string { return "" },
		Path: cargo + ":" + pyenv + "/shims:" + pyenv + "/bin:/usr/local/bin:/usr/bin:/bin",
	})
}

func benchmark(b *testing.B, h *Host) {
	b.ReportAllocs()
	for b.Loop() {
		Find(h)
	}
}
