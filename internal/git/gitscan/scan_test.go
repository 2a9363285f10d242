package gitscan

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestScanKinds(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	project(t, root)
	project(t, filepath.Join(root, "vendor/a/b"))
	outside := filepath.Join(t.TempDir(), "outside")
	project(t, outside)
	git(t, root, "init", "-q", "--bare", "bare.git")
	git(t, root, "init", "-q", "--bare", "plain")
	git(t, root, "worktree", "add", "-q", "tree")
	git(t, outside, "worktree", "add", "-q", filepath.Join(root, "foreign"))
	git(t, root, "submodule", "--quiet", "add", outside, "libs/sub")
	git(t, root, "init", "-q", "--separate-git-dir", filepath.Join(root, "elsewhere"), "apart")
	for _, dir := range []string{"empty/.git", "headless/objects", "headless/refs", "notbare/refs", "fixtures/no.git", ".git/inside/.git"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(root, ".git/inside/.git/HEAD"), "ref: refs/heads/main\n")
	write(t, filepath.Join(root, "odd\n\xff/.git/HEAD"), "")
	symlink(t, outside, filepath.Join(root, "link"))

	want(t, scan(t, nil, root), Repos{
		Dirs: []string{
			".git", ".git/modules/libs/sub", ".git/worktrees/tree", "bare.git", "elsewhere",
			"empty/.git", "odd\n\xff/.git", "plain", "vendor/a/b/.git",
		},
		Links:  []string{"apart/.git", "foreign/.git", "libs/sub/.git", "tree/.git"},
		NotGit: []string{"fixtures/no.git"},
	})
	want(t, scan(t, nil, filepath.Join(root, "bare.git")), Repos{Dirs: []string{"."}})
}

// TestScanHiddenByBare: three names must not hide a repository from the scan.
func TestScanHiddenByBare(t *testing.T) {
	root := t.TempDir()
	project(t, filepath.Join(root, "src/x"))
	for _, name := range []string{"HEAD", "objects", "refs"} {
		write(t, filepath.Join(root, "src", name), "")
	}
	want(t, scan(t, nil, root), Repos{Dirs: []string{"src", "src/x/.git"}})
}

func TestScanPointers(t *testing.T) {
	root := t.TempDir()
	away := t.TempDir()
	for path, text := range map[string]string{
		"up/.git":      "gitdir: ../../../../../../../../../../etc\n",
		"abs/.git":     "gitdir: " + root + "/x/../real\n",
		"away/.git":    "gitdir: " + away + "\n",
		"link/.git":    "gitdir: ../alias/dir\r\n",
		"none/.git":    "gitdir: later\n",
		"bad/.git":     "gitdir\n",
		"nul/.git":     "gitdir: a\x00b\n",
		"shared/.git":  "gitdir: ../w\n",
		"w/commondir":  "../common\n",
		"real/dir/a":   "",
		"x/a":          "",
		"target/HEAD":  "",
		"target2/.git": "gitdir: ../t2\n",
	} {
		write(t, filepath.Join(root, path), text)
	}
	symlink(t, "real", filepath.Join(root, "alias"))
	symlink(t, "loop", filepath.Join(root, "loop"))
	write(t, filepath.Join(root, "circle/.git"), "gitdir: ../loop/x\n")
	for _, dir := range []string{"s1", "s2", "s3"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	symlink(t, "../target", filepath.Join(root, "s1/.git"))
	symlink(t, "../target2/.git", filepath.Join(root, "s2/.git"))
	symlink(t, "/proc/self/mem", filepath.Join(root, "s3/.git"))
	if err := syscall.Mkfifo(filepath.Join(root, "t2"), 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, scan(t, nil, root), Repos{
		Dirs: []string{"common", "none/later", "real", "real/dir", "t2", "target", "w"},
		Links: []string{
			"abs/.git", "alias", "away/.git", "bad/.git", "circle/.git", "link/.git", "loop", "none/.git",
			"nul/.git", "s1/.git", "s2/.git", "s3/.git", "shared/.git", "target2/.git", "up/.git",
		},
	})
}

func TestScanConfig(t *testing.T) {
	home := t.TempDir()
	root := filepath.Join(home, "root")
	for _, tt := range []struct {
		name, config string
		want         []string
	}{
		{"hooks", "[core] hooksPath=hooks", []string{"hooks"}},
		{"case", "[CoRe]\n\tHOOKSPATH = a/../b ; c", []string{"b"}},
		{"quoted", "[core]\nhooksPath = \"my hooks\" # c", []string{"my hooks"}},
		{"continued", "[core]\nhooksPath = ho\\\noks", []string{"hooks"}},
		{"crlf", "\ufeff[core]\r\n\thooksPath = hooks\r\n", []string{"hooks"}},
		{"absolute", "[core]\nhooksPath = " + root + "/h", []string{"h"}},
		{"home", "[core]\nhooksPath = ~/root/h", []string{"h"}},
		{"outside", "[core]\nhooksPath = ../h", nil},
		{"dev null", "[core]\nhooksPath = /dev/null", nil},
		{"empty", "[core]\nhooksPath =\nhooksPath", nil},
		{"nul", "[core]\nhooksPath = a\x00b", nil},
		{"other home", "[core]\nhooksPath = ~root/h", nil},
		{"two", "[core]\nhooksPath = a\n[other]\n[core]\nhooksPath = b", []string{"a", "b"}},
		{"all", "[core]\nhooksPath = .", []string{"."}},
		{"husky", "[core]\nhooksPath = .husky/_", []string{".husky"}},
		{"in .git", "[core]\nhooksPath = .git/my", []string{".git/my"}},
		{"other section", "[core \"x\"]\n[x]\nhooksPath = a", nil},
		{"worktree", "[core]\nhooksPath = h\nworktree = ../sub", []string{"h", "sub/h"}},
		{"include", "[include]\npath = ../extra", []string{"extra", "fromextra"}},
		{"includeIf", "[includeIf \"gitdir:/never/\"]\n\tpath = ../extra", []string{"extra", "fromextra"}},
		{"optional", "[core]\nhooksPath = :(optional)h", []string{"h"}},
		{"missing include", "[include]\npath = ../later", []string{"later"}},
		{"circular include", "[include]\npath = config", []string{".git/config"}},
		{"fsmonitor", "[core]\nfsmonitor = tools/watch --x", []string{"tools/watch"}},
		{"fsmonitor builtin", "[core]\nfsmonitor = true", nil},
		{"filter", "[filter \"x\"]\nclean = sh script.sh %f", []string{"script.sh"}},
		{"alias", "[alias]\nx = !./tools/a\ny = log ./tools/b", []string{"tools/a"}},
		{"alias with options", "[alias]\nx = -c core.pager=tools/a log", []string{"tools/a"}},
		{"alias in a subsection", "[alias \"x\"]\ncommand = !tools/a", []string{"tools/a"}},
		{"key of ssh", "[gpg \"ssh\"]\ndefaultKeyCommand = tools/key -x", []string{"tools/key"}},
		{"program of a format", "[gpg \"x509\"]\nprogram = tools/sm", []string{"tools/sm"}},
		{"hook", "[hook \"lint\"]\nevent = pre-commit\ncommand = sh script.sh", []string{"script.sh"}},
		{"recent objects", "[gc]\nrecentObjectsHook = tools/recent", []string{"tools/recent"}},
		{"archive", "[tar \"tar.xz\"]\ncommand = tools/xz -c", []string{"tools/xz"}},
		{
			"mail", "[sendemail]\nsmtpServer = tools/a\nsendmailCmd = tools/b\ntoCmd = tools/c\nccCmd = tools/d\n[sendemail \"work\"]\nheaderCmd = tools/e",
			[]string{"tools/a", "tools/b", "tools/c", "tools/d", "tools/e"},
		},
		{"server of mail", "[sendemail]\nsmtpServer = mail.example.invalid", nil},
		{"tunnel", "[imap]\ntunnel = \"ssh x; tools/imapd\"", []string{"tools/imapd"}},
		{"menu", "[guitool \"x\"]\ncmd = tools/a", []string{"tools/a"}},
		{"browser", "[browser \"x\"]\ncmd = tools/a\npath = tools/b\n[man \"x\"]\ncmd = tools/c\npath = tools/d", []string{"tools/a", "tools/b", "tools/c", "tools/d"}},
		{"web", "[instaweb]\nhttpd = tools/a -f\nmodulePath = modules\nbrowser = tools/b", []string{"modules", "tools/a", "tools/b"}},
		{"authors", "[svn]\nauthorsProg = tools/a", []string{"tools/a"}},
		{"lfs", "[lfs \"customtransfer.x\"]\npath = python3\nargs = tools/a\n[lfs \"extension.y\"]\nclean = tools/b %f\nsmudge = tools/c", []string{"tools/a", "tools/b", "tools/c"}},
		{"templates", "[init]\ntemplateDir = templates", []string{"templates"}},
		{"external remote", "[remote \"o\"]\nurl = ext::tools/a %S x\npushurl = https://example.invalid/b/c\n[url \"ext::tools/d \"]\ninsteadOf = y:", []string{"tools/a", "tools/d"}},
		{"not a command", "[blame]\nignoreRevsFile = script.sh", nil},
		{"damaged", "[core\nhooksPath = a\n[core]\n=x\n\"\n%%\nhooksPath = b", []string{"b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.RemoveAll(root); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(root, ".git/HEAD"), "")
			write(t, filepath.Join(root, ".git/config"), tt.config)
			write(t, filepath.Join(root, "extra"), "[core]\nhooksPath = fromextra")
			write(t, filepath.Join(root, "script.sh"), "")
			want(t, scan(t, &Options{Home: home}, root), Repos{Dirs: []string{".git"}, Outside: tt.want})
		})
	}
}

func TestScanWorktreeConfig(t *testing.T) {
	dir := t.TempDir()
	main, root := filepath.Join(dir, "main"), filepath.Join(dir, "root")
	project(t, main)
	git(t, main, "worktree", "add", "-q", root)
	git(t, main, "config", "core.hooksPath", ".hooks")
	git(t, main, "config", "extensions.worktreeConfig", "true")
	git(t, root, "config", "--worktree", "include.path", filepath.Join(root, "inc"))
	want(t, scan(t, nil, root), Repos{Links: []string{".git"}, Outside: []string{".hooks", "inc"}})
}

func TestScanPartOfRepository(t *testing.T) {
	dir := t.TempDir()
	project(t, dir)
	git(t, dir, "config", "core.hooksPath", "service/hooks")
	root := filepath.Join(dir, "service")
	write(t, filepath.Join(root, "main.go"), "")
	want(t, scan(t, nil, root), Repos{Outside: []string{"hooks"}})
}

func TestScanLinkedHooks(t *testing.T) {
	root := t.TempDir()
	project(t, root)
	symlink(t, "../../scripts/check", filepath.Join(root, ".git/hooks/pre-commit"))
	project(t, filepath.Join(root, "b"))
	if err := os.RemoveAll(filepath.Join(root, "b/.git/hooks")); err != nil {
		t.Fatal(err)
	}
	symlink(t, "../../hooks", filepath.Join(root, "b/.git/hooks"))
	write(t, filepath.Join(root, "shared.cfg"), "[core]\nhooksPath = h")
	project(t, filepath.Join(root, "c"))
	if err := os.Remove(filepath.Join(root, "c/.git/config")); err != nil {
		t.Fatal(err)
	}
	symlink(t, "../../shared.cfg", filepath.Join(root, "c/.git/config"))
	want(t, scan(t, nil, root), Repos{
		Dirs:    []string{".git", "b/.git", "c/.git"},
		Links:   []string{".git/hooks/pre-commit", "b/.git/hooks", "c/.git/config"},
		Outside: []string{"c/h", "hooks", "scripts/check", "shared.cfg"},
	})
}

func TestScanRootLink(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	project(t, root)
	symlink(t, root, filepath.Join(dir, "alias"))
	git(t, root, "config", "core.hooksPath", filepath.Join(dir, "alias/h"))
	want(t, scan(t, nil, filepath.Join(dir, "alias")), Repos{Dirs: []string{".git"}, Outside: []string{"h"}})
}

func TestScanLimits(t *testing.T) {
	root := t.TempDir()
	for i := range 20 {
		write(t, filepath.Join(root, fmt.Sprint(i), "x"), "")
	}
	if r := scan(t, &Options{MaxDirs: 21}, root); r.Truncated {
		t.Error("truncated at exactly the limit")
	}
	if r := scan(t, &Options{MaxDirs: 20}, root); !r.Truncated {
		t.Error("not truncated beyond the limit")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Scan(ctx, root, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	for _, bad := range []string{"relative", filepath.Join(root, "none"), filepath.Join(root, "0/x")} {
		if _, err := Scan(t.Context(), bad, nil); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}

// TestScanDeep: a path that is longer than the kernel takes is reported.
func TestScanDeep(t *testing.T) {
	root := t.TempDir()
	fd, err := os.OpenRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("d", 250)
	for range 20 {
		if err := fd.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := fd.OpenRoot(name)
		fd.Close()
		if err != nil {
			t.Fatal(err)
		}
		fd = next
	}
	fd.Close()
	r := scan(t, nil, root)
	if len(r.Unread) != 1 || len(r.Unread[0]) < 4000 {
		t.Errorf("not read: %d", len(r.Unread))
	}
}

func TestScanUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	root := t.TempDir()
	for _, dir := range []string{".git", ".git/hooks", "no", "repo", "repo/.git"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for dir, mode := range map[string]os.FileMode{".git": 0o300, "no": 0, "repo/.git": 0} {
		if err := os.Chmod(filepath.Join(root, dir), mode); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(filepath.Join(root, dir), 0o700)
	}
	want(t, scan(t, nil, root), Repos{Dirs: []string{".git", "repo/.git"}, Unread: []string{".git", "no", "repo/.git"}})
}

// TestScanOtherMount: what is mounted below is not entered, but named.
func TestScanOtherMount(t *testing.T) {
	r := scan(t, &Options{MaxDirs: 100_000}, "/dev")
	if !slices.Contains(r.Skipped, "pts") {
		t.Skipf("nothing is mounted at /dev/pts: %q", r.Skipped)
	}
}

// TestScanLinks counts the files with links out of the tree, not those with all their links in
// it, nor those of git.
func TestScanLinks(t *testing.T) {
	base := t.TempDir()
	root := filepath.Join(base, "root")
	for _, name := range []string{"root/a", "root/d/b", "root/c", "root/alone", "root/.git/HEAD", "root/.git/objects/x", "root/.git/refs/x", "cache/a", "cache/x"} {
		write(t, filepath.Join(base, name), name)
	}
	for from, to := range map[string]string{"root/a": "cache/a2", "root/d/b": "root/b2", "root/c": "root/c2", "root/.git/objects/x": "cache/y"} {
		if err := os.Link(filepath.Join(base, from), filepath.Join(base, to)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(base, "root/c"), filepath.Join(base, "cache/c3")); err != nil {
		t.Fatal(err)
	}
	for files, want := range map[int]int{0: 0, 1000: 2} {
		repos, err := Scan(t.Context(), root, &Options{Files: files})
		if err != nil || repos.Outer != want {
			t.Errorf("of %d files %+v, %v; want %d", files, repos, err, want)
		}
	}
}

// Found is called once, if there is a repository.
func TestScanFound(t *testing.T) {
	for n := range 3 {
		dir, calls := t.TempDir(), 0
		for i := range n {
			write(t, filepath.Join(dir, fmt.Sprint(i), ".git", "HEAD"), "ref: refs/heads/main\n")
		}
		scan(t, &Options{Found: func() { calls++ }}, dir)
		if calls != min(n, 1) {
			t.Errorf("%d repositories: %d calls", n, calls)
		}
	}
}

// Other directories of objects are believed by git, and so found.
func TestScanAlternates(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "r/.git/objects/info/alternates"), "../../../a/objects\n# c\n"+root+"/b\n/elsewhere\n")
	want(t, scan(t, nil, root), Repos{Dirs: []string{"r/.git"}, Outside: []string{"a/objects", "b"}})
}
