package gvisor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// rootDir is the host directory that is the root directory inside: an image's,
// or one that makeRoot makes.
func rootDir(spec *launch.Spec) string {
	return cmp.Or(spec.RootDir, filepath.Join(spec.Dir, "root"))
}

// filterFile is where the seccomp filter is on the host.
func filterFile(spec *launch.Spec) string { return filepath.Join(spec.Dir, "seccomp") }

// A node is something in the root directory itself: a directory, or a symbolic
// link.
type node struct{ path, link string }

// skeleton lists what the root directory is made of, parents first. Where Spec
// mounts, runsc makes the rest.
func skeleton(spec *launch.Spec) []node {
	list := []node{
		{path: "var"},
		{path: "var/tmp", link: "../tmp"},
	}
	for _, e := range spec.Root {
		if e.Link != "" {
			list = append(list, node{path: e.Name, link: e.Link})
		}
	}
	return list
}

// makeRoot makes the root directory dir.
func makeRoot(dir string, list []node) error {
	err := os.Mkdir(dir, 0o755)
	for _, n := range list {
		path := filepath.Join(dir, n.path)
		switch {
		case err != nil:
		case n.link != "":
			err = os.Symlink(n.link, path)
		default:
			err = os.Mkdir(path, 0o755)
		}
	}
	if err != nil {
		return fmt.Errorf("make the root directory: %w", err)
	}
	return nil
}

// checkPlaces refuses what has no place in a directory that is shown read-only.
// Runsc would try to make the place, and fail; this says why. Links are none of
// its business: see shield.
func checkPlaces(spec *launch.Spec) error {
	var shown []runtime.Mount
	for _, e := range spec.Root {
		if e.Link == "" {
			shown = append(shown, runtime.Mount{Source: e.Source, Target: "/" + e.Name})
		}
	}
	if spec.Etc != "" {
		shown = append(shown, runtime.Mount{Source: spec.Etc, Target: "/etc"})
	}
	for _, m := range spec.Binds {
		for _, in := range shown {
			rest, below := strings.CutPrefix(m.Target, in.Target+"/")
			if !below || in.Writable {
				continue
			}
			if _, err := os.Lstat(filepath.Join(in.Source, rest)); errors.Is(err, fs.ErrNotExist) {
				return runtime.Errorf(runtime.ErrInvalid, "there is no %s to mount on: %s is read-only, and has no %s", m.Target, in.Target, rest)
			} else if err != nil {
				return runtime.Errorf(runtime.ErrInvalid, "mount on %s: %w", m.Target, err)
			}
		}
		shown = append(shown, m)
	}
	return nil
}
