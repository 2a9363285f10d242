package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"wolffia/runtime"
)

// changes is how many files the sandbox of cow changes.
const changes = 5000

// cow compares a copied codebase with one that is worked on directly, and with the plain directory, turn by
// turn; and measures what is done with the changes.
func (b *bench) cow() error {
	base, err := os.MkdirTemp("", "wolffia-bench-cow")
	if err != nil {
		return err
	}
	defer os.RemoveAll(base)
	direct, plain := filepath.Join(base, "direct"), filepath.Join(base, "plain")
	copied := filepath.Join(base, "copied")
	for _, dir := range []string{direct, plain, copied} {
		if err := sourceTree(dir); err != nil {
			return err
		}
	}
	if err := b.cowCreates(direct); err != nil {
		return err
	}
	fmt.Fprintln(b.table, "Go's source tree, copied\tplain p50\tdirect p50\tcopied p50\tcopied/direct\tbar\t")
	ids := make([]string, 2)
	for i, cow := range []bool{false, true} {
		s, err := b.rt.Create(b.ctx, &runtime.SandboxConfig{
			CodebasePath: []string{direct, copied}[i], Permissions: b.rules, CopyOnWrite: cow,
			Mounts: []runtime.Mount{{Source: plain, Target: "/plain", Writable: true}},
			Env:    map[string]string{"GOFLAGS": "-mod=vendor", "GOTOOLCHAIN": "local", "PATH": os.Getenv("PATH"), "GOCACHE": "/tmp/gocache"},
		})
		if err != nil {
			return err
		}
		defer func() { _ = b.rt.Destroy(b.ctx, s.ID) }()
		if err := b.rt.Start(b.ctx, s.ID); err != nil {
			return err
		}
		if err := b.execIn(s.ID, "sh", "-c", "cd /plain && tar cf /tmp/500.tar net"); err != nil {
			return err
		}
		ids[i] = s.ID
	}
	for _, w := range workloads {
		if _, err := exec.LookPath(w.tool); w.tool != "" && err != nil {
			continue
		}
		bar := 1.1
		if w.prepare != "" {
			bar = 1.2
		}
		if err := b.compareThree(ids, &w, bar); err != nil {
			return err
		}
	}
	return b.cowReview(ids[1])
}

// cowCreates measures create and start with a copied codebase, which pins the repository, and without.
func (b *bench) cowCreates(dir string) error {
	var t [2]times
	for i := range 22 {
		for j, cow := range []bool{false, true} {
			var id string
			d, err := took(func() error {
				s, err := b.rt.Create(b.ctx, &runtime.SandboxConfig{CodebasePath: dir, Permissions: b.rules, CopyOnWrite: cow})
				if err != nil {
					return err
				}
				id = s.ID
				return b.rt.Start(b.ctx, id)
			})
			if err != nil {
				return err
			}
			if err := b.rt.Destroy(b.ctx, id); err != nil {
				return err
			}
			if i >= 2 {
				t[j] = append(t[j], d)
			}
		}
	}
	b.ratio("create and start, direct (left) and copied (right)", t, 0)
	return nil
}

// compareThree measures w in the plain directory, and in the codebases of both sandboxes.
func (b *bench) compareThree(ids []string, w *workload, bar float64) error {
	const rounds = 7
	var t [3]times
	for i := range rounds + 2 {
		for j, place := range []struct{ id, dir string }{{ids[0], "/plain"}, {ids[0], runtime.DefaultMountPoint}, {ids[1], runtime.DefaultMountPoint}} {
			in := func(script string) error {
				return b.execIn(place.id, "sh", "-c", "cd "+place.dir+" && { "+script+"; } >/dev/null")
			}
			if w.prepare != "" {
				if err := in(w.prepare); err != nil {
					return fmt.Errorf("%s: %w", w.name, err)
				}
			}
			d, err := took(func() error { return in(w.script) })
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			if i >= 2 {
				t[j] = append(t[j], d)
			}
		}
	}
	if w.prepare != "" {
		_ = b.execIn(ids[0], "sh", "-c", "rm -rf /plain/new /plain/big new big")
		_ = b.execIn(ids[1], "sh", "-c", "rm -rf new big")
	}
	for j := range t {
		slices.Sort(t[j])
	}
	fmt.Fprintf(b.table, "%s\t%s\t%s\t%s\t%.2fx\t<= %.2fx\t\n", w.name, ms(t[0].at(0.5)), ms(t[1].at(0.5)), ms(t[2].at(0.5)),
		float64(t[2].at(0.5))/float64(t[1].at(0.5)), bar)
	if os.Getenv("WOLFFIA_BENCH_FLUSH") != "" {
		_ = b.table.Flush()
	}
	return nil
}

// cowReview measures changes, diff, fork, apply and discard of many changes.
func (b *bench) cowReview(id string) error {
	if err := b.execIn(id, "sh", "-c", fmt.Sprintf("find . -name '*.go' ! -path './.git/*' | sort | head -n %d | while read -r f; do echo '// changed' >>\"$f\"; done; sync", changes)); err != nil {
		return err
	}
	all, err := b.rt.Changes(b.ctx, id, runtime.ChangesOptions{})
	if err != nil {
		return err
	}
	files := 0
	for i := range all {
		if !strings.HasPrefix(all[i].Path, ".git") {
			files++
		}
	}
	fmt.Fprintf(b.table, "%d changed files\tmin\tp50\tp99\tbar\t\n", files)
	var list, diff, fork times
	for range 7 {
		d, err := took(func() error { _, err := b.rt.Changes(b.ctx, id, runtime.ChangesOptions{}); return err })
		if err != nil {
			return err
		}
		list = append(list, d)
		if d, err = took(func() error { return b.rt.Diff(b.ctx, id, runtime.DiffOptions{}, io.Discard) }); err != nil {
			return err
		}
		diff = append(diff, d)
		var child *runtime.Sandbox
		if d, err = took(func() error { child, err = b.rt.Fork(b.ctx, id, ""); return err }); err != nil {
			return err
		}
		fork = append(fork, d)
		if err := b.rt.Destroy(b.ctx, child.ID); err != nil {
			return err
		}
	}
	b.row("list of the changes", list, "<= 300 ms")
	b.row("diff, unified", diff, "<= 300 ms")
	b.row("fork", fork, "<= 500 ms")
	d, err := took(func() error { _, err := b.rt.Apply(b.ctx, id, runtime.ApplyOptions{}); return err })
	if err != nil {
		return err
	}
	b.row("apply", times{d}, "<= 2 s")
	for _, script := range []string{"git status --porcelain", "find . -size +100k"} {
		var warm times
		for range 7 {
			d, err := took(func() error { return b.execIn(id, "sh", "-c", script+" >/dev/null") })
			if err != nil {
				return err
			}
			warm = append(warm, d)
		}
		b.row(script+", with the changes", warm, "")
	}
	return nil
}
