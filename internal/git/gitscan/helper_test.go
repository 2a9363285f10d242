package gitscan

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"wolffia/internal/test/suite"
)

var git = suite.Git

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func symlink(t testing.TB, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func scan(t testing.TB, opts *Options, root string) *Repos {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	repos, err := Scan(ctx, root, opts)
	if err != nil {
		t.Fatal(err)
	}
	return repos
}

func want(t testing.TB, got *Repos, want Repos) {
	t.Helper()
	if d := cmp.Diff(&want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Repos{}, "Trees")); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// project makes a repository with one commit.
func project(t testing.TB, dir string, flags ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	git(t, dir, append([]string{"init", "-q"}, flags...)...)
	write(t, filepath.Join(dir, "file"), "x")
	git(t, dir, "add", "file")
	git(t, dir, "commit", "-q", "-m", "x")
}

func BenchmarkScan(b *testing.B) {
	root := b.TempDir()
	for i := range 15 {
		for j := range 100 {
			for k := range 10 {
				write(b, fmt.Sprintf("%s/%d/%d/file%d", root, i, j, k), "")
			}
		}
	}
	for _, dir := range []string{root, root + "/3/3", root + "/7/9"} {
		git(b, dir, "init", "-q")
	}
	b.ReportAllocs()
	for b.Loop() {
		r, err := Scan(b.Context(), root, nil)
		if err != nil || len(r.Dirs) != 3 {
			b.Fatal(r, err)
		}
	}
}
