package staticfs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"wolffia/perm"
	"wolffia/runtime"
)

// A fake is a directory in memory: names of directories end in a slash, text after " -> "
// is a link's, and marks after a colon say what else a name is.
type fake map[string]fake

func (f fake) entries() (all []entry, err error) {
	for _, n := range slices.Sorted(maps.Keys(f)) {
		name, text, is := strings.Cut(n, " -> ")
		base, mark, _ := strings.Cut(name, ":")
		switch {
		case is:
			all = append(all, entry{base, link})
		case text == "" && strings.HasSuffix(base, "/"):
			all = append(all, entry{strings.TrimSuffix(base, "/"), folder})
		case mark == "fifo":
			all = append(all, entry{base, fifo})
		case mark == "socket":
			all = append(all, entry{base, socket})
		default:
			all = append(all, entry{base, file})
		}
	}
	return all, nil
}

func (f fake) enter(name string) (directory, error) {
	for n, sub := range f {
		if n == name+"/:closed" {
			return nil, fs.ErrPermission
		}
		if n == name+"/" {
			return sub, nil
		}
	}
	return nil, fs.ErrNotExist
}

func (f fake) target(name string) (string, error) {
	for n := range f {
		if text, ok := strings.CutPrefix(n, name+" -> "); ok {
			return text, nil
		}
	}
	return "", fs.ErrNotExist
}

func (f fake) close() {}

// lines writes a plan, a line for each node.
func lines(n *node, path string) (all []string) {
	kinds := map[kind]string{keep: "keep", open: "open", shut: "shut", only: "only", hidden: "hidden", own: "own"}
	as := kinds[n.as]
	if n.is == link {
		as = "link to " + n.text
	}
	all = []string{fmt.Sprintf("%s %s", path, as)}
	for _, e := range n.nodes {
		all = append(all, lines(e, strings.TrimPrefix(path+"/"+e.name, "./"))...)
	}
	return all
}

func rules(t *testing.T, texts ...string) *perm.Policy {
	t.Helper()
	var all []perm.Rule
	for i, text := range texts {
		if text == "git" {
			all = append(all, perm.GitInPlace(perm.AnyGitRules())...)
			continue
		}
		reveal, secret := strings.CutPrefix(text, "reveal ")
		r, err := perm.ParseRule(reveal)
		if err != nil {
			t.Fatal(err)
		}
		if r.Priority = i; secret {
			r.Priority = perm.PriorityReveal
		}
		all = append(all, r)
	}
	p, err := perm.Compile(all)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPlan(t *testing.T) {
	tree := fake{
		"a/": {"b/": {"x.none": nil, "y": nil}, "c/": {"z": nil}},
		"f":  nil, "l -> a": nil,
	}
	repo := fake{".git/": {"config": nil, "objects/": {"ab/": {}}}, "src/": {"m.go": nil}, "sub/": {".git": nil}}
	for name, test := range map[string]struct {
		rules []string
		tree  fake
		want  string
	}{
		"all":                   {[]string{"**=write"}, tree, ". open"},
		"read":                  {[]string{"**=read"}, tree, ". shut"},
		"nothing":               {nil, tree, ". only"},
		"a hidden file":         {[]string{"**=write", "*.none=none"}, tree, ". open|a open|a/b open|a/b/x.none hidden"},
		"in a read-only tree":   {[]string{"**=read", "*.none=none"}, tree, ". shut|a keep|a/b keep|a/b/x.none hidden"},
		"a hidden directory":    {[]string{"**=write", "/a/b/=none"}, tree, ". open|a open|a/b hidden"},
		"a read-only directory": {[]string{"**=write", "/a/b/=read"}, tree, ". open|a open|a/b shut"},
		"a read-only file":      {[]string{"**=write", "/f=read"}, tree, ". open|f shut"},
		"a visible file":        {[]string{"**=write", "/f=view"}, tree, ". open|f hidden"},
		"a writable directory":  {[]string{"**=read", "/a/c/=write"}, tree, ". shut|a keep|a/c open"},
		"only one directory":    {[]string{"/a/c/=write"}, tree, ". only|a only|a/c open"},
		"only one file":         {[]string{"/f=read"}, tree, ". only|f shut"},
		"only a link":           {[]string{"/l=read"}, tree, ". only|l link to a"},
		"names only":            {[]string{"**=view"}, tree, ". only|a only|a/b only|a/b/x.none hidden|a/b/y hidden|a/c only|a/c/z hidden|f hidden|l hidden"},
		"a link is not masked":  {[]string{"**=write", "/l=none"}, tree, ". open"},
		"new names":             {[]string{"**=write", "/a/*=read", "/a/b/=write"}, tree, ". open|a shut|a/b open"},
		"git":                   {[]string{"**=write", "git"}, repo, ". open|.git shut|sub open|sub/.git shut"},
		"a bare repository":     {[]string{"**=write", "git"}, fake{"r.git/": repo[".git/"]}, ". open|r.git shut"},
		"a hidden file of git":  {[]string{"**=write", "*.none=none", "git"}, fake{".git/": {"x.none": nil}}, ". open|.git shut|.git/x.none hidden"},
		"unreadable":            {[]string{"**=write", "*.none=none"}, fake{"d/:closed": nil}, ". open|d hidden"},
		"a socket":              {[]string{"**=write", "*.none=none"}, fake{"s:socket": nil}, ". open|s hidden"},
		"a pipe":                {[]string{"**=write", "*.none=none"}, fake{"p:fifo": nil}, ". open"},
		"a read-only pipe":      {[]string{"**=write", "/p=read"}, fake{"p:fifo": nil}, ". open|p hidden"},
	} {
		made, err := plan(rules(t, test.rules...), test.tree, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := strings.Join(lines(made.root, "."), "|"); got != test.want {
			t.Errorf("%s:\n%s, want\n%s", name, got, test.want)
		}
	}
}

// What the rules let the sandbox write is its own copy; what cannot be copied is as protected as
// it is without one.
func TestPlanOwn(t *testing.T) {
	repo := fake{".git/": {"config": nil, "objects/": {}}, "wt/": {".git": nil}, "bad/": {".git/": {"x.none": nil}}, "l/": {".git -> x": nil}}
	for name, test := range map[string]struct {
		rules []string
		free  []string // without that of the host's own
		want  string
		why   string
	}{
		"writable":     {[]string{"**=write", "*.none=none", "git"}, []string{"**=write"}, ". open|.git own|bad open|bad/.git shut|bad/.git/x.none hidden|wt open|wt/.git own", "bad/.git: no room"},
		"unguarded":    {[]string{"**=write"}, []string{"**=write"}, ". open|.git own|bad open|bad/.git hidden|wt open|wt/.git own", "bad/.git: no room"},
		"only git":     {[]string{"/.git/=write", "git"}, []string{"/.git/=write", "/.git=write"}, ". only|.git own", ""},
		"read-only":    {[]string{"**=write", ".git=read"}, []string{"**=write", ".git=read"}, ". open|.git shut|bad open|bad/.git shut|wt open|wt/.git shut", ""},
		"a hidden one": {[]string{"**=write", ".git=none"}, []string{"**=write", ".git=none"}, ". open|.git hidden|bad open|bad/.git hidden|wt open|wt/.git hidden", ""},
	} {
		var copied []string
		git := &Git{Rules: rules(t, test.free...), Copy: func(path string) (bool, error) {
			copied = append(copied, path)
			if path == "bad" {
				return false, errors.New("no room")
			}
			return path == ".", nil
		}}
		made, err := plan(rules(t, test.rules...), repo, git)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := strings.Join(lines(made.root, "."), "|"); got != test.want || made.Stats.GitReason != test.why {
			t.Errorf("%s (%q):\n%s, want\n%s; why %q", name, copied, got, test.want, made.Stats.GitReason)
		}
	}
}

func TestStats(t *testing.T) {
	tree := fake{".git/": {"config": nil}, "a.none": nil, "b.read": nil, "l.none -> x": nil, "d/:closed": nil, "only/": {"x": nil}, "deep/": {}}
	at := tree["deep/"]
	for range maxDepth {
		at["d/"] = fake{}
		at = at["d/"]
	}
	made, err := plan(rules(t, "**=write", "*.none=none", "*.read=read", "/only/=none", "/only/x=read", "git"), tree, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := made.Stats
	names := got.Names
	got.Names = nil
	if want := (Stats{Mounts: 6 + maxDepth + 1, Hidden: 3, ReadOnly: 4, Links: 1, Closed: 2, Git: 1}); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if len(names) != 3 || !slices.Contains(names, "l.none") || !slices.Contains(names, "d") {
		t.Errorf(`got names %q; want len(names) == 3 and names contains "l.none" and names contains "d"`, names)
	}
}

// Bounds are errors, which name what helps.
func TestBounds(t *testing.T) {
	many := fake{}
	for i := range maxMounts + 1 {
		many[fmt.Sprint(i, ".none")] = nil
	}
	if _, err := plan(rules(t, "**=write", "*.none=none"), many, nil); !errors.Is(err, runtime.ErrUnsupported) || !strings.Contains(err.Error(), "--filter fuse") {
		t.Errorf(`plan: got err %v; want err is runtime.ErrUnsupported and err.Error() contains "--filter fuse"`, err)
	}
}
