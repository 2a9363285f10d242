package hostpath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree makes directories, files and links below a new directory: "a/", "a/f", "l -> a".
func tree(t *testing.T, names ...string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		name, target, link := strings.Cut(name, " -> ")
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		switch {
		case link:
			err = os.Symlink(strings.ReplaceAll(target, "ROOT", root), path)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o755)
		default:
			err = os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// A path is changed by a sandbox where it ends in a place that the sandbox writes, and where it
// follows a link there, whatever the link's target.
func TestResolve(t *testing.T) {
	root := tree(t, "own/f", "code/f", "code/out -> ROOT/own", "code/deep/up -> ../../own/f", "in -> code", "around -> own",
		"twice -> in/out/f", "loop -> loop", "own/x/../y -> f")
	place := filepath.Join(root, "code")
	for path, want := range map[string]struct {
		real   string // below root
		in     bool   // Resolve names the place
		linked bool   // ResolveLinks does
	}{
		"own/f":        {"own/f", false, false},
		"around/f":     {"own/f", false, false},
		"code/f":       {"code/f", true, false},
		"in/f":         {"code/f", true, false},
		"code":         {"code", true, false},
		"code/out/f":   {"own/f", true, true},
		"code/deep/up": {"own/f", true, true},
		"twice":        {"own/f", true, true},
		"own/y":        {"own/f", false, false},
		"own/../own/f": {"own/f", false, false},
	} {
		for what, resolve := range map[string]func(string, []string) (string, string, error){"Resolve": Resolve, "ResolveLinks": ResolveLinks} {
			real, got, err := resolve(root+"/"+path, []string{filepath.Join(root, "none"), place})
			named := want.in
			if what == "ResolveLinks" {
				named = want.linked
			}
			if err != nil || real != filepath.Join(root, want.real) || got != "" && got != place || (got != "") != named {
				t.Errorf("%s(%s) = %s, %q, %v, want %s, a place: %t", what, path, real, got, err, want.real, named)
			}
		}
	}
	for _, path := range []string{"loop", "own/f/x", "absent"} {
		if real, _, err := Resolve(root+"/"+path, nil); !errors.As(err, new(*fs.PathError)) {
			t.Errorf("Resolve(%s) = %s, %v, want an error of the path", path, real, err)
		}
	}
}

// A file is in a place whatever name the place has.
func TestHolder(t *testing.T) {
	root := tree(t, "code/sub/f", "codex/f", "name -> code")
	for path, want := range map[string]string{"code/sub/f": "name", "code": "name", "codex/f": "", "": ""} {
		got, err := Holder(filepath.Join(root, path), []string{filepath.Join(root, "absent"), filepath.Join(root, "name")})
		if want != "" {
			want = filepath.Join(root, want)
		}
		if got != want || err != nil {
			t.Errorf("Holder(%q) = %q, %v, want %q", path, got, err, want)
		}
	}
}

// A program of PATH is found where no sandbox writes, and what is before it in PATH is skipped.
func TestLook(t *testing.T) {
	root := tree(t, "code/.venv/bin/tool", "code/.venv/bin/only", "own/bin/tool", "links/tool -> ROOT/code/.venv/bin/tool", "data/tool/", "own/bin/own")
	t.Setenv("PATH", strings.Join([]string{root + "/code/.venv/bin", "relative", root + "/links", root + "/data", root + "/own/bin", "/usr/bin"}, ":"))
	var failed error
	Distrust(t.Name(), func() ([]string, error) { return []string{root + "/code"}, failed })
	t.Cleanup(func() { Distrust(t.Name(), func() ([]string, error) { return nil, nil }) })
	for name, want := range map[string]string{"tool": root + "/own/bin/tool", "own": root + "/own/bin/own", "only": "", "sh": "/usr/bin/sh"} {
		got, err := Look(name)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("Look(%s) = %q, %v, want %q", name, got, err, want)
		}
	}
	failed = errors.New("the places are not known")
	if got, err := Look("own"); err == nil {
		t.Errorf("Look(own) = %s without the places, want an error", got)
	}
	if got, err := Look("sh"); os.Geteuid() != 0 && (got != "/usr/bin/sh" || err != nil) {
		t.Errorf("Look(sh) = %s, %v without the places, want the program of root's", got, err)
	}
	failed = nil
	for name, kept := range map[string]bool{"tool": false, "own": true, "sh": true, "absent": true} {
		if has := strings.Contains(Path(name), ".venv"); has != kept {
			t.Errorf("Path(%s) = %s, want it to have the distrusted entry: %t", name, Path(name), kept)
		}
	}
}
