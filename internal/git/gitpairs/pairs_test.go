package gitpairs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// tree makes files by their paths below dir: a path that ends with / is a directory, and "a -> b"
// a link.
func tree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(at), 0o700)
		switch link, is := strings.CutPrefix(text, "-> "); {
		case err != nil:
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(at, 0o700)
		case is:
			err = os.Symlink(link, at)
		default:
			err = os.WriteFile(at, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestFind(t *testing.T) {
	outside := t.TempDir()
	tree(t, outside, map[string]string{"HEAD": "x", "objects/": ""})
	for what, tt := range map[string]struct {
		store, host map[string]string
		want        []string // Private of Host at Place; a Host is relative to the codebase
	}{
		"nothing": {},
		"top": {
			map[string]string{".git/HEAD": "x"},
			map[string]string{".git/HEAD": "x"},
			[]string{".git of .git at ."},
		},
		"nested, and one that the sandbox has made": {
			map[string]string{"a/b/.git/HEAD": "x", "made/.git/HEAD": "x", "made/.git/objects/": "", "none/.git/x": ""},
			map[string]string{"a/b/.git/HEAD": "x", "made/f": ""},
			[]string{"a/b/.git of .git at a/b", "made/.git of .git at made, made inside"},
		},
		"submodules": {
			map[string]string{
				".git/HEAD": "x", "sub/.git": "gitdir: ../.git/modules/lib/sub\n", "sub/x/.git": "gitdir: ../../.git/modules/lib/sub/modules/x\n",
				".git/modules/lib/sub/HEAD": "x", ".git/modules/lib/sub/objects/": "",
				".git/modules/lib/sub/modules/x/HEAD": "x", ".git/modules/lib/sub/modules/x/objects/": "",
				".git/modules/gone/HEAD": "x", ".git/modules/gone/objects/": "",
			},
			map[string]string{
				".git/HEAD": "x", "sub/.git": "gitdir: ../.git/modules/lib/sub\n", ".git/modules/lib/sub/HEAD": "x",
				".git/modules/lib/sub/modules/x/HEAD": "x", ".git/modules/gone/HEAD": "x",
			},
			[]string{
				".git of .git at .", ".git/modules/lib/sub of .git/modules/lib/sub at sub",
				".git/modules/lib/sub/modules/x of .git/modules/lib/sub/modules/x at sub/x",
			},
		},
		"linked working trees": {
			map[string]string{".git/HEAD": "x", "tree/.git": "gitdir: /inside/.git/worktrees/tree\n", ".git/worktrees/tree/HEAD": "x", ".git/worktrees/new/HEAD": "x"},
			map[string]string{".git/HEAD": "x", ".git/worktrees/tree/HEAD": "x"},
			[]string{".git/worktrees/tree of .git/worktrees/tree at tree", ".git of .git at ."},
		},
		"made inside": {
			map[string]string{
				".git/HEAD": "x", "sub/.git": "gitdir: ../.git/modules/sub\n", ".git/modules/sub/HEAD": "x", ".git/modules/sub/objects/": "", "old/.git": "gitdir: ../.git/modules/old\n",
				".git/modules/old/HEAD": "x", ".git/modules/old/objects/": "", "tree/.git": "gitdir: /inside/.git/worktrees/tree\n", ".git/worktrees/tree/HEAD": "x",
				"away/.git/HEAD": "x", "none/.git/f": "",
			},
			map[string]string{".git/HEAD": "x", "sub/f": "", "old/": "", ".git/modules/old/HEAD": "x", "tree/f": "", "none/f": ""},
			[]string{
				".git/worktrees/tree of .git/worktrees/tree at tree, made inside, without a file", ".git of .git at .", ".git/modules/old of .git/modules/old at old, without a file",
				".git/modules/sub of .git/modules/sub at sub, made inside, without a file",
			},
		},
		"a codebase that is a linked working tree": {
			map[string]string{".git/HEAD": "x"},
			map[string]string{".git": "gitdir: " + outside + "\n"},
			[]string{".git of " + outside + " at ."},
		},
		"a directory in the place of a file that leads within": {
			map[string]string{".git/HEAD": "x", "sub/.git/HEAD": "x"},
			map[string]string{".git/HEAD": "x", ".git/modules/sub/HEAD": "x", "sub/.git": "gitdir: ../.git/modules/sub\n"},
			[]string{".git of .git at ."},
		},
		"links": {
			map[string]string{"a": "-> " + outside, "b/.git/HEAD": "x", "c/.git/HEAD": "x", "d/.git": "-> ../b/.git", ".git/HEAD": "x", ".git/modules": "-> " + outside},
			map[string]string{"b": "-> " + outside, "c/.git": "-> " + outside, ".git/HEAD": "x"},
			[]string{".git of .git at ."},
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			store, codebase := filepath.Join(dir, "store"), filepath.Join(dir, "code")
			tree(t, dir, map[string]string{"store/": "", "code/": ""})
			tree(t, store, tt.store)
			tree(t, codebase, tt.host)
			pairs, err := Find(store, codebase, "/inside")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range pairs {
				p.Host = strings.TrimPrefix(p.Host, filepath.Join(codebase, p.Place)+"/")
				p.Host = strings.TrimPrefix(p.Host, codebase+"/")
				got = append(got, p.String())
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A whiteout and a FIFO are no git directories, and a FIFO blocks nothing.
func TestFindSpecial(t *testing.T) {
	dir := t.TempDir()
	tree(t, dir, map[string]string{"store/fifo/": "", "code/": ""})
	if err := unix.Mkfifo(filepath.Join(dir, "store/fifo/.git"), 0o600); err != nil {
		t.Fatal(err)
	}
	if pairs, err := Find(filepath.Join(dir, "store"), filepath.Join(dir, "code"), "/inside"); len(pairs) > 0 || err != nil {
		t.Errorf(`Find "/inside": got pairs %v, err %v; want len(pairs) <= 0 and err == nil`, pairs, err)
	}
}

// A tree of directories that is too deep is an error, not a long walk.
func TestFindBounds(t *testing.T) {
	dir := t.TempDir()
	tree(t, dir, map[string]string{"store/" + strings.Repeat("d/", maxDepth+2): "", "code/": ""})
	if _, err := Find(filepath.Join(dir, "store"), filepath.Join(dir, "code"), "/inside"); err == nil {
		t.Error("no error")
	}
}
