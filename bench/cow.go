package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

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
	copied, reviewed := filepath.Join(base, "copied"), filepath.Join(base, "reviewed")
	for _, dir := range []string{direct, plain, copied, reviewed} {
		if err := sourceTree(dir); err != nil {
			return err
		}
	}
	if err := b.cowReview(reviewed); err != nil { // first: see forksAgain
		return err
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
		if w.changes() {
			bar = 1.2
		}
		if err := b.compare(&w, 7, bar, place{ids[0], "/plain", plain},
			place{ids[0], runtime.DefaultMountPoint, direct}, place{ids[1], runtime.DefaultMountPoint, copied}); err != nil {
			return err
		}
	}
	return nil
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
	b.ratio("create and start, direct (left) and copied (right)", 0, t[:]...)
	return nil
}

// cowReview measures changes, diff, fork, apply and discard of many changes of the codebase dir.
func (b *bench) cowReview(dir string) error {
	s, err := b.rt.Create(b.ctx, &runtime.SandboxConfig{CodebasePath: dir, Permissions: b.rules, CopyOnWrite: true})
	if err != nil {
		return err
	}
	id := s.ID
	defer func() { _ = b.rt.Destroy(b.ctx, id) }()
	if err := b.rt.Start(b.ctx, id); err != nil {
		return err
	}
	if err := b.execIn(id, "sh", "-c", fmt.Sprintf("find . -type f -name '*.go' ! -path './.git/*' | sort | head -n %d | while read -r f; do echo '// changed' >>\"$f\"; done; sync", changes)); err != nil {
		return err
	}
	all, err := b.rt.Changes(b.ctx, id, runtime.ChangesOptions{})
	if err != nil {
		return err
	}
	fmt.Fprintf(b.table, "%d changes\tmin\tp50\tp99\tbar\t\n", len(all))
	var forks []string
	for _, part := range []struct {
		name, bar string
		do        func() error
	}{
		{"list of the changes", "<= 300 ms", func() error { _, err := b.rt.Changes(b.ctx, id, runtime.ChangesOptions{}); return err }},
		{"diff, unified", "<= 300 ms", func() error { return b.rt.Diff(b.ctx, id, runtime.DiffOptions{}, io.Discard) }},
		{"`wolffia diff`, whole program", "<= 300 ms", func() error {
			cmd := exec.Command(b.wolffia, "--state-dir", b.state, "diff", id)
			cmd.Stderr = os.Stderr
			return cmd.Run()
		}},
		{"fork", "<= 500 ms", func() error {
			made, err := b.rt.Fork(b.ctx, id, runtime.ForkOptions{})
			if err == nil {
				forks = append(forks, made[0].ID)
			}
			return err
		}},
	} {
		var t times
		for range 9 {
			d, err := took(part.do)
			if err != nil {
				return fmt.Errorf("%s: %w", part.name, err)
			}
			t = append(t, d)
		}
		b.row(part.name, t, part.bar)
	}
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
	return b.forksAgain(id, forks)
}

// forksAgain measures forks of a sandbox, each right after the deletion of one of forks: ext4 without a journal uses no
// inode again that was deleted in the last minutes, and looks at each of them for a new one.
func (b *bench) forksAgain(id string, forks []string) error {
	var t times
	for _, fork := range forks {
		if err := b.rt.Destroy(b.ctx, fork); err != nil {
			return err
		}
		if len(t) == 4 {
			continue
		}
		var made []*runtime.Sandbox
		d, err := took(func() (err error) { made, err = b.rt.Fork(b.ctx, id, runtime.ForkOptions{}); return err })
		if err != nil {
			return err
		}
		t = append(t, d)
		defer func() { _ = b.rt.Destroy(b.ctx, made[0].ID) }()
	}
	b.row("fork, right after the deletion of one", t, "<= 500 ms")
	return nil
}
