// Package packaged installs packages of pip, npm or Debian for tests, each set once for all runs.
package packaged

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"wolffia/internal/sys/rmtree"
	"wolffia/internal/test/testenv"
)

// limit is how long a program may run: a guard against a hang.
const limit = 8 * time.Minute

// Run runs a program in a directory, with variables beside those of this process, and returns what
// it prints.
func Run(t testing.TB, dir string, env []string, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// Python returns variables with which Python finds the packages that a file of requirements pins.
// flags are pip's.
func Python(t testing.TB, requirements string, flags ...string) (env []string) {
	t.Helper()
	return PythonOf(t, "python3", requirements, flags...)
}

// PythonOf is Python for another program than python3.
func PythonOf(t testing.TB, program, requirements string, flags ...string) (env []string) {
	t.Helper()
	testenv.Tools(t, program)
	version, err := Run(t, "", nil, program, "--version")
	if err != nil {
		t.Fatalf("%s --version: %v\n%s", program, err, version)
	}
	dir := once(t, version+strings.Join(flags, " ")+"\n"+read(t, requirements), func(dir string) {
		PIP(t, program, nil, dir, append([]string{"--only-binary", ":all:", "-r", requirements}, flags...)...)
	})
	return []string{"PYTHONPATH=" + dir, "PYTHONDONTWRITEBYTECODE=1"}
}

// PIP has the pip of a Python install packages in a directory.
func PIP(t testing.TB, program string, env []string, dir string, args ...string) {
	t.Helper()
	args = append([]string{
		"-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-compile", "--target", dir,
	}, args...)
	if text, err := Run(t, "", env, program, args...); err != nil {
		testenv.Lacks(t, "pip and the package registry of Python", "pip install: "+err.Error()+"\n"+text)
	}
}

// Node returns a copy of a directory, with the packages that its package-lock.json pins by their
// digests.
func Node(t testing.TB, from string) (dir string) {
	t.Helper()
	testenv.Tools(t, "node", "npm")
	dir = filepath.Join(t.TempDir(), filepath.Base(from))
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	cached := once(t, "\n"+read(t, filepath.Join(from, "package-lock.json")), func(made string) {
		for _, name := range []string{"package.json", "package-lock.json"} {
			if err := os.WriteFile(filepath.Join(made, name), []byte(read(t, filepath.Join(from, name))), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if text, err := Run(t, made, nil, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"); err != nil {
			testenv.Lacks(t, "the package registry of npm", "npm ci: "+err.Error()+"\n"+text)
		}
	})
	if err := os.Symlink(filepath.Join(cached, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Debian returns an archive of tar with the least system of a suite of Debian's, of this host's
// mirror.
func Debian(t testing.TB, suite string) (file string) {
	t.Helper()
	testenv.Tools(t, "mmdebstrap")
	const name = "base.tar"
	dir := once(t, "debian "+suite, func(dir string) {
		text, err := Run(t, dir, nil, "mmdebstrap", "--quiet", "--variant=minbase", "--skip=output/dev", suite, name)
		if err != nil {
			testenv.Lacks(t, "a mirror of Debian", "mmdebstrap: "+err.Error()+"\n"+text)
		}
	})
	return filepath.Join(dir, name)
}

// read returns the text of a file.
func read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// once returns the directory that install has filled for what pins say. It stays beside the cache
// of go's builds.
func once(t testing.TB, pins string, install func(dir string)) string {
	t.Helper()
	sum := sha256.Sum256([]byte(pins))
	cache := filepath.Join(cacheDir(t), "wolffia-packages")
	dir := filepath.Join(cache, hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		t.Fatal(err)
	}
	making, err := os.MkdirTemp(cache, "making-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rmtree.RemovePath(cache, filepath.Base(making)) }) // if install has failed
	install(making)
	if err := os.Rename(making, dir); err != nil && !errors.Is(err, fs.ErrExist) { // another test has made it
		t.Fatal(err)
	}
	return dir
}

// cacheDir returns the directory of caches.
func cacheDir(t testing.TB) string {
	if builds := os.Getenv("GOCACHE"); builds != "" {
		return filepath.Dir(builds)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = t.TempDir()
	}
	return dir
}
