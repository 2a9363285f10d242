package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// A view is a way to see the files of one directory.
type view struct {
	name string
	// open makes them visible, with nothing in the kernel's caches of it. in runs a script at their top.
	open func() (in func(script string) error, end func() error, err error)
	took map[string]times // by the name of the work
}

// fuseWork is what is done in a view, in this order. big.o, which git ignores, is written on the host before.
var fuseWork = []struct {
	name, script string
	fresh        bool // the view is opened anew before; the first one is
}{
	{"git status, the first", "git status", true},
	{"git status, the second", "git status", false},
	{"ls -lR, the first", "ls -lR", true},
	{"cp -r of 500 files", "cp -r net new", false},
	{"rm -r of 500 files", "rm -r new", false},
	{"read 256 MB, cached by the host only", "dd if=big.o of=/dev/null bs=1M", false},
}

// fuse compares the filtered tree with other FUSE file systems that show a directory's files, turn by turn: bindfs, which
// presents other owners and modes, and fuse-overlayfs, on which rootless containers run. They are mounted on the host, and
// filter nothing.
func (b *bench) fuse() error {
	const rounds = 5
	base, err := os.MkdirTemp("", "wolffia-bench-fuse")
	if err != nil {
		return err
	}
	defer os.RemoveAll(base)
	source, mount := filepath.Join(base, "source"), filepath.Join(base, "mount")
	if err := sourceTree(source); err != nil {
		return err
	}
	if err := os.Mkdir(mount, 0o755); err != nil {
		return err
	}
	views := []*view{b.plainView(source), b.filteredView(source)}
	for _, peer := range []struct {
		name    string
		command func() (*exec.Cmd, error)
	}{
		{"bindfs", func() (*exec.Cmd, error) { return exec.Command("bindfs", "--multithreaded", source, mount), nil }},
		{"fuse-overlayfs", func() (*exec.Cmd, error) { return overlay(base, source, mount) }},
	} {
		v := mountedView(peer.name, mount, peer.command)
		if err := v.try(); err != nil {
			b.notMeasured(peer.name, err)
			continue
		}
		views = append(views, v)
	}
	for range rounds {
		for _, v := range views {
			if err := v.round(source); err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
		}
	}
	b.fuseTable(views)
	return nil
}

// fuseTable prints the median of each work in each view, and of which multiple of the first it is.
func (b *bench) fuseTable(views []*view) {
	fmt.Fprint(b.table, "Go's source tree in FUSE file systems, p50\t")
	for _, v := range views {
		fmt.Fprintf(b.table, "%s\t", v.name)
	}
	fmt.Fprintln(b.table)
	for _, w := range fuseWork {
		fmt.Fprintf(b.table, "%s\t", w.name)
		plain := views[0].median(w.name)
		for _, v := range views {
			fmt.Fprintf(b.table, "%s, %.1fx\t", ms(v.median(w.name)), float64(v.median(w.name))/float64(plain))
		}
		fmt.Fprintln(b.table)
	}
}

// median returns the median of the times that a work took.
func (v *view) median(work string) time.Duration {
	t := slices.Clone(v.took[work])
	slices.Sort(t)
	return t.at(0.5)
}

// try opens v and ends it.
func (v *view) try() error {
	_, end, err := v.open()
	if err != nil {
		return err
	}
	return end()
}

// round does all work in v once. source is the directory that it shows.
func (v *view) round(source string) (err error) {
	if err := hostScript(source, "rm -rf new; dd if=/dev/zero of=big.o bs=1M count=256 conv=fdatasync"); err != nil {
		return err
	}
	var in func(string) error
	end := func() error { return nil }
	defer func() { err = errors.Join(err, end()) }()
	for _, w := range fuseWork {
		if w.fresh {
			if err := end(); err != nil {
				return err
			}
			if in, end, err = v.open(); err != nil {
				end = func() error { return nil }
				return err
			}
		}
		d, err := took(func() error { return in(w.script) })
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		v.took[w.name] = append(v.took[w.name], d)
	}
	return nil
}

// hostScript runs a script in dir on the host.
func hostScript(dir, script string) error {
	c := exec.Command("sh", "-c", "exec >/dev/null; "+script)
	c.Dir = dir
	return outputError(c)
}

// outputError runs c; its error has what c has printed.
func outputError(c *exec.Cmd) error {
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", c.Args, err, out)
	}
	return nil
}

// plainView is the directory itself.
func (b *bench) plainView(source string) *view {
	return &view{"the plain directory", func() (func(string) error, func() error, error) {
		return func(script string) error { return hostScript(source, script) }, func() error { return nil }, nil
	}, map[string]times{}}
}

// filteredView is the directory in a new sandbox.
func (b *bench) filteredView(source string) *view {
	return &view{"wolffia", func() (func(string) error, func() error, error) {
		id, err := b.createOver(source, source, b.rules)
		if err != nil {
			return nil, nil, err
		}
		in := func(script string) error {
			return b.execIn(id, "sh", "-c", "cd /workspace && exec >/dev/null && "+script)
		}
		return in, func() error { return b.rt.Destroy(b.ctx, id) }, nil
	}, map[string]times{}}
}

// mountedView is the directory through a FUSE file system of the host, which command mounts at mount.
func mountedView(name, mount string, command func() (*exec.Cmd, error)) *view {
	return &view{name, func() (func(string) error, func() error, error) {
		c, err := command()
		if err == nil {
			err = outputError(c)
		}
		if err != nil {
			return nil, nil, err
		}
		end := func() error { return outputError(exec.Command("fusermount3", "-u", mount)) }
		return func(script string) error { return hostScript(mount, script) }, end, nil
	}, map[string]times{}}
}

// overlay returns the command that mounts a new fuse-overlayfs over source at mount. Its other directories are below base.
func overlay(base, source, mount string) (*exec.Cmd, error) {
	dir, err := os.MkdirTemp(base, "overlay")
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"upper", "work"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return nil, err
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", source, dir, dir)
	return exec.Command("fuse-overlayfs", "-o", options, mount), nil
}
