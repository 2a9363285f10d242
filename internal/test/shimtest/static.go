package shimtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/testenv"
	"wolffia/perm"
	"wolffia/runtime"
)

// Static is the suite of the filter static, for backends that have it.
func Static(t *testing.T, b Backend) {
	testenv.Tools(t, "python3")
	rt := b.Fresh(t)
	if os.Geteuid() == 0 {
		if _, err := rt.Create(t.Context(), static(PublicDir(t), perm.Rule{Pattern: "**", Level: perm.Write})); !errors.Is(err, runtime.ErrUnsupported) {
			t.Errorf("a codebase of root's: %v", err)
		}
	}
	t.Run("Levels", func(t *testing.T) { staticLevels(t, rt) })
	t.Run("MasksStay", func(t *testing.T) { masksStay(t, rt, runtime.GitReadOnly) })
	t.Run("OwnGitStays", func(t *testing.T) { masksStay(t, rt, runtime.GitPrivate) })
	t.Run("Swaps", func(t *testing.T) { staticSwaps(t, rt) })
	t.Run("RulesStay", func(t *testing.T) { staticRulesStay(t, rt) })
}

// static returns the configuration of a sandbox with the filter static, to which git directories are as other ones.
func static(dir string, rules ...perm.Rule) *runtime.SandboxConfig {
	return &runtime.SandboxConfig{CodebasePath: dir, Filter: runtime.FilterStatic, Permissions: rules, GitDirs: runtime.GitReadOnly}
}

// give gives a codebase to an unprivileged user, if the test runs as root: one of root's is
// refused.
func give(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	const nobody = 65534
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, nobody, nobody))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// python runs a program inside, and returns what it prints.
func python(t *testing.T, rt *Runtime, id, program string, args ...string) string {
	t.Helper()
	r, err := rt.Exec(t.Context(), id, &runtime.ExecRequest{Command: append([]string{"python3", "-c", program}, args...)})
	if err != nil {
		t.Fatal(err)
	}
	if r.ExitCode != 0 {
		t.Fatalf("python: %d, %s%s", r.ExitCode, r.Stdout, r.Stderr)
	}
	return string(r.Stdout)
}

// reach says of each path whether it is there, can be read and can be written.
const reach = `
import json, os, sys
out = {}
for path in json.loads(sys.argv[1]):
    said = ''
    if os.path.lexists(path): said += 'v'
    try:
        with open(path) as f: f.read()
        said += 'r'
    except OSError: pass
    try:
        with open(path, 'r+') as f: f.write('w')
        said += 'w'
    except OSError: pass
    out[path] = said
print(json.dumps(out))
`

// What can be read and written at the start is what package perm says, for random trees
// and rules; git directories are read-only.
func staticLevels(t *testing.T, rt *Runtime) {
	names := []string{"a", "b", "c.x", "d.y", ".env", ".git", "new\nline", "ü b", "z\xff"}
	patterns := []string{"a", "b", "*.x", "*.y", "/a/", "/b/b", "/a/b/", "a/*", "**/b/a", ".env", "/*", "/b/**", "c.x/"}
	for round := range testenv.Some(24) {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		dir := filepath.Join(PublicDir(t), "code")
		paths := growTree(t, r, dir, names)
		rules := []perm.Rule{{Pattern: "**", Level: []perm.Level{perm.Write, perm.Write, perm.Read, perm.View, perm.None}[r.IntN(5)]}}
		for range r.IntN(6) {
			rules = append(rules, perm.Rule{Pattern: patterns[r.IntN(len(patterns))], Level: perm.Levels()[r.IntN(4)], Priority: 1 + r.IntN(3)})
		}
		if r.IntN(2) == 0 {
			rules = perm.GitInPlace(append(rules, perm.AnyGitRules()...))
		}
		p, err := perm.Compile(rules)
		if err != nil {
			t.Fatal(err)
		}
		give(t, dir)
		s := on(t, rt, static(dir, rules...))
		asked, err := json.Marshal(surrogates(paths))
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]string
		if err := json.Unmarshal([]byte(python(t, rt, s.ID, reach, string(asked))), &got); err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			want := map[perm.Level]string{perm.None: "", perm.View: "v", perm.Read: "vr", perm.Write: "vrw"}[p.Level(path, false)]
			is := got[surrogate(path)]
			if want == "" && is == "v" { // the name of a hidden file may show
				is = ""
			}
			if is != want {
				t.Errorf("round %d, seed %d: %q is %q, want %q with %v", round, seed, path, is, want, rules)
			}
		}
		if err := rt.Destroy(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
	}
}

// surrogate replaces the only byte of the test's names that is not UTF-8 as Python does.
func surrogate(path string) string { return strings.ReplaceAll(path, "\xff", "\ufffd") }

func surrogates(paths []string) (all []string) {
	for _, p := range paths {
		if !strings.Contains(p, "\xff") { // JSON has no such text
			all = append(all, p)
		}
	}
	return all
}

// growTree makes a random tree, and returns the paths of its files.
func growTree(t *testing.T, r *rand.Rand, dir string, names []string) (paths []string) {
	var grow func(rel string, depth int)
	grow = func(rel string, depth int) {
		if err := os.Mkdir(filepath.Join(dir, rel), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			path := filepath.Join(rel, name)
			switch k := r.IntN(4); {
			case k == 0:
			case k < 3 && depth < 3:
				grow(path, depth+1)
			default:
				if err := os.WriteFile(filepath.Join(dir, path), []byte("content"), 0o644); err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(path, "\xff") {
					paths = append(paths, path)
				}
			}
		}
	}
	grow("", 0)
	return paths
}

// attack tries to get at what is masked, and to put something in its place.
const attack = `
import ctypes, os, shutil, subprocess
libc = ctypes.CDLL(None, use_errno=True)
def exchange(a, b):
    if libc.renameat2(-100, a.encode(), -100, b.encode(), 2): raise OSError(ctypes.get_errno(), '')
open('mine', 'w').write('mine'); os.mkdir('dir')
masked = ['secret', 'p/q/secret', 'hid', 'ro/file', 'ro', '.git/config', '.git', '.git/hooks', 'p/file.read', '.vscode/settings.json', '.vscode']
ways = [
    lambda m: os.rename(m, m + '2'), lambda m: os.rename(m, 'dir/x'), lambda m: os.rename('mine', m), lambda m: os.rename('dir', m),
    lambda m: os.unlink(m), lambda m: os.rmdir(m), lambda m: os.link(m, 'dir/l'), lambda m: exchange(m, 'mine'), lambda m: exchange(m, 'dir'),
    lambda m: os.chmod(m, 0o777), lambda m: os.utime(m, (1, 1)), lambda m: os.truncate(m, 0), lambda m: open(m, 'w').write('x'),
    lambda m: open(m + '/new', 'w').write('x'), lambda m: os.mkdir(m + '/new'), lambda m: os.symlink('mine', m),
    lambda m: libc.umount2(m.encode(), 2) and os.stat('/no such'), lambda m: libc.mount(b'mine', m.encode(), None, 4096, None) and os.stat('/no such'),
    lambda m: os.setxattr(m, 'user.x', b'x'), lambda m: shutil.rmtree(m),
    lambda m: os.open('/proc/self/fd/%d/../%s' % (os.open('.', os.O_RDONLY), m), os.O_RDWR),
]
for m in masked:
    for i, way in enumerate(ways):
        try: way(m)
        except OSError: continue
        print(m, 'way', i)
for d in ['p', 'p/q']:
    try: os.rename(d, 'moved'); print('moved', d)
    except OSError: pass
for top, dirs, files in os.walk('.'):
    for f in files:
        try:
            if b'SECRET' in open(os.path.join(top, f), 'rb').read(): print('read', top, f)
        except OSError: pass
`

// What is masked cannot be read, changed, moved or replaced from inside; nor can what is the
// host's be by way of a git directory of the sandbox's own, in which it may change everything.
func masksStay(t *testing.T, rt *Runtime, git runtime.GitDirs) {
	dir := PublicDir(t)
	for path, content := range map[string]string{
		"secret": "SECRET", "p/q/secret": "SECRET", "hid/a/file": "SECRET", "ro/file": "old", ".git/config": "[old]\n", ".git/hooks/x": "old",
		".git/HEAD": "ref: refs/heads/main\n", ".git/refs/heads/main": strings.Repeat("1", 40) + "\n", ".git/objects/11/1": "old",
		"p/file.read": "old", ".vscode/settings.json": "old", "p/other": "old",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755), os.WriteFile(filepath.Join(dir, path), []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	give(t, dir)
	before := snapshot(t, dir)
	rules := append(perm.GitInPlace(perm.AnyGitRules()), perm.ExecutedRules([]string{"."})...)
	for pattern, level := range map[string]perm.Level{"**": perm.Write, "secret": perm.None, "/hid/": perm.None, "/ro/": perm.Read, "*.read": perm.Read} {
		rules = append(rules, perm.Rule{Pattern: pattern, Level: level})
	}
	c := static(dir, rules...)
	c.GitDirs = git
	s := on(t, rt, c)
	for line := range strings.Lines(python(t, rt, s.ID, attack)) {
		if git != runtime.GitPrivate || !strings.HasPrefix(line, ".git") {
			t.Errorf("inside: %s", line)
		}
	}
	after := snapshot(t, dir)
	for path, was := range before {
		if path != "." && after[path] != was {
			t.Errorf("%s was %q, is %q", path, was, after[path])
		}
	}
}

// snapshot describes the files below a directory.
func snapshot(t *testing.T, dir string) map[string]string {
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		st, err := d.Info()
		if err != nil {
			return err
		}
		all[rel] = st.Mode().String()
		if d.Type().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			all[rel] += fmt.Sprintf(" %s %v", content, st.ModTime())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Directories that the host exchanges for links during a start lead nowhere outside of the
// codebase.
func staticSwaps(t *testing.T, rt *Runtime) {
	top := PublicDir(t)
	code, out := filepath.Join(top, "code"), filepath.Join(top, "out")
	for path, content := range map[string]string{"code/d/ro/file": "inner", "code/d/secret": "inner", "out/ro/file": "OUTER", "out/secret": "OUTER", "out/file": "OUTER"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(top, path)), 0o755), os.WriteFile(filepath.Join(top, path), []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(out, filepath.Join(code, "l")); err != nil {
		t.Fatal(err)
	}
	give(t, top)
	ctx, stop := context.WithCancel(t.Context())
	swapped := make(chan struct{})
	go func() {
		defer close(swapped)
		for ctx.Err() == nil {
			_ = unix.Renameat2(unix.AT_FDCWD, code+"/d", unix.AT_FDCWD, code+"/l", unix.RENAME_EXCHANGE)
		}
	}()
	defer func() { stop(); <-swapped }()
	rules := []perm.Rule{{Pattern: "**", Level: perm.Write}, {Pattern: "secret", Level: perm.None, Priority: 1}, {Pattern: "ro/", Level: perm.Read, Priority: 1}}
	started := 0
	for end := time.Now().Add(20 * time.Second); started < testenv.Some(20) && time.Now().Before(end); {
		s, err := rt.Create(t.Context(), static(code, rules...))
		if err != nil {
			t.Fatal(err)
		}
		if err := rt.Start(t.Context(), s.ID); err == nil {
			started++
			r, err := rt.Exec(t.Context(), s.ID, &runtime.ExecRequest{Command: []string{"/bin/sh", "-c", "for i in 1 2 3 4 5; do cat d/* d/ro/* l/* l/ro/*; done; echo x >d/ro/file; echo x >l/ro/file; true"}})
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(r.Stdout, []byte("OUTER")) {
				t.Errorf(`Exec: got r.Stdout %s; want r.Stdout does not contain []byte("OUTER")`, r.Stdout)
			}
		} else if !strings.Contains(err.Error(), "codebase") {
			t.Error(err)
		}
		if err := rt.Destroy(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(out + "/ro/file"); err != nil || string(got) != "OUTER" {
		t.Errorf("outside is %q, %v", got, err)
	}
	t.Logf("%d starts", started)
}

// The rules of a start stay until the next.
func staticRulesStay(t *testing.T, rt *Runtime) {
	dir := PublicDir(t)
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("f"), 0o644); err != nil {
		t.Fatal(err)
	}
	give(t, dir)
	all, hide := perm.Rule{Pattern: "**", Level: perm.Write}, perm.Rule{Pattern: "f", Level: perm.None, Priority: 1}
	s := on(t, rt, static(dir, all))
	says(t, rt, s.ID, "cat f", "f")
	if err := rt.SetPermissions(t.Context(), s.ID, []perm.Rule{all, hide}); !errors.Is(err, runtime.ErrConflict) {
		t.Errorf("SetPermissions: got %v, want runtime.ErrConflict", err)
	}
	info, err := rt.Inspect(t.Context(), s.ID)
	if err != nil || len(info.Config.Permissions) != 1 || info.Tree == nil || !info.Tree.Current || info.Tree.Static == nil || info.Filter != runtime.FilterStatic {
		t.Errorf("Inspect: got info %+v, err %v; want err == nil and len(info.Config.Permissions) == 1 and info.Tree != nil and info.Tree.Current and info.Tree.Static != nil and info.Filter == runtime.FilterStatic",
			info, err)
	}
	if err := errors.Join(rt.Stop(t.Context(), s.ID), rt.SetPermissions(t.Context(), s.ID, []perm.Rule{all, hide}), rt.Start(t.Context(), s.ID)); err != nil {
		t.Fatal(err)
	}
	says(t, rt, s.ID, "cat f 2>/dev/null || echo hidden", "hidden\n")
}
