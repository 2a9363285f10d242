package fusefs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/testenv"
	"wolffia/perm"
)

// A program is something that people run, and does the same on a mount as in
// any directory.
type program struct {
	name  string
	tools []string
	do    func(t *testing.T, dir string) string // says what came of it
}

func TestPrograms(t *testing.T) {
	for i, p := range programs {
		if !testenv.Picked(i, 2) {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			testenv.Tools(t, p.tools...)
			t.Parallel()
			mounted(t, setup{Policy: []perm.Rule{{Pattern: "**", Level: perm.Write}}}, p.compare)
		})
	}
}

// compare runs the program on a mount and in a plain directory.
func (p *program) compare(t *testing.T, c *client) {
	plain := filepath.Join(filepath.Dir(c.host), "plain")
	if err := os.Mkdir(plain, 0o755); err != nil {
		t.Fatal(err)
	}
	got, want := p.do(t, c.dir), p.do(t, plain)
	if c.copied { // a directory that both layers have has one link
		links := regexp.MustCompile(`(?m)^\. 40755 \d+$`)
		got, want = links.ReplaceAllString(got, "."), links.ReplaceAllString(want, ".")
	}
	there, here := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(there), len(here)) {
		if there[i] != here[i] {
			t.Fatalf("line %d is %q on the mount, %q in a plain directory, of\n%s", i+1, there[i], here[i], want)
		}
	}
	if got != want {
		t.Errorf("on the mount:\n%s\nin a plain directory:\n%s", got, want)
	}
	if want == "" {
		t.Error("nothing came of it")
	}
}

// programs are in an order in which a sample, one of two, has those that no recipe of
// docs/recipes runs.
var programs = []program{
	{"sqlite", []string{"sqlite3"}, sqlite},
	{"git", []string{"git"}, gitWork},
	{"copies", []string{"tar", "cp", "rsync", "zip", "unzip"}, copies},
	{"npm", []string{"npm", "node"}, npm},
	{"editors", []string{"ed", "sed", "patch", "diff"}, editors},
	{"go", []string{"go"}, goBuild},
	{"python", []string{"python3"}, smallFiles},
	{"make", []string{"make"}, makeFiles},
}

// sqlite has two processes write to one database at a time.
func sqlite(t *testing.T, dir string) string {
	run(t, dir, "sqlite3", "wal.db", "PRAGMA journal_mode=wal; CREATE TABLE t(who, n, text)")
	var group sync.WaitGroup
	for who := range 2 {
		var b strings.Builder
		fmt.Fprintln(&b, ".timeout 120000")
		for i := range 150 {
			fmt.Fprintf(&b, "INSERT INTO t VALUES(%d, %d, hex(zeroblob(500)));\n", who, i)
		}
		fmt.Fprintln(&b, "BEGIN IMMEDIATE; UPDATE t SET text = n; DELETE FROM t WHERE n % 50 = 0; COMMIT;")
		script := filepath.Join(dir, fmt.Sprint("script", who))
		if err := os.WriteFile(script, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			cmd := exec.Command("sqlite3", "-init", script, "wal.db", ".quit")
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("writer %d: %v\n%s", who, err, out)
			}
		})
	}
	group.Wait()
	// Rows of the slower one may come after the faster one has deleted.
	return run(t, dir, "sqlite3", "wal.db",
		"DELETE FROM t WHERE n % 50 = 0; SELECT who, count(*), sum(n) FROM t GROUP BY who; PRAGMA integrity_check; PRAGMA wal_checkpoint(TRUNCATE)")
}

func gitWork(t *testing.T, dir string) string {
	git := func(where string, args ...string) string {
		return run(t, filepath.Join(dir, where), "git", append([]string{"-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main", "-c", "gc.auto=0"}, args...)...)
	}
	git(".", "init", "-q", "repo")
	for i := range 200 {
		write(t, dir, fmt.Sprintf("repo/dir%d/file%d", i%10, i), strings.Repeat(fmt.Sprintln("line", i), i))
	}
	git("repo", "add", ".")
	git("repo", "commit", "-qm", "first")
	git(".", "clone", "-q", "file://"+dir+"/repo", "clone")
	git("clone", "checkout", "-qb", "feature")
	write(t, dir, "clone/dir1/file1", "on the branch\n")
	git("clone", "commit", "-qam", "on the branch")
	git("clone", "checkout", "-q", "main")
	write(t, dir, "clone/dir2/file2", "on main\n")
	git("clone", "rm", "-q", "dir3/file3")
	git("clone", "mv", "dir4", "moved")
	git("clone", "commit", "-qam", "on main")
	git("clone", "merge", "-q", "-m", "merged", "feature")
	git("clone", "rebase", "-q", "main", "feature")
	git("clone", "push", "-q", "origin", "feature")
	git("clone", "worktree", "add", "-q", "../tree", "main")
	git("clone", "gc", "-q", "--prune=now", "--aggressive")
	git("clone", "repack", "-adq")
	log := strings.Split(git("clone", "log", "--format=%s", "--all"), "\n")
	slices.Sort(log) // commits of one second come in any order
	return git("clone", "fsck", "--strict", "--full") + strings.Join(log, "\n") +
		git("clone", "status", "--porcelain") + git("tree", "status", "--porcelain") +
		git("clone", "ls-tree", "-r", "main") + git("repo", "branch", "--format=%(refname)")
}

// npm installs by a lock file what lies beside it: nothing is fetched.
func npm(t *testing.T, dir string) string {
	write(t, dir, "dep/package.json", `{"name": "dep", "version": "1.0.0", "main": "lib/index.js", "bin": {"dep": "bin.js"}}`)
	write(t, dir, "dep/lib/index.js", "module.exports = () => 'from the dependency'\n")
	write(t, dir, "dep/bin.js", "#!/usr/bin/env node\nconsole.log(require('./lib')())\n")
	for i := range 151 {
		write(t, dir, fmt.Sprintf("dep/data/%d.js", i), fmt.Sprintf("module.exports = %d\n", i))
	}
	offline := []string{"--offline", "--no-audit", "--no-fund", "--silent", "--logs-max=0", "--cache", filepath.Join(dir, "cache")}
	run(t, filepath.Join(dir, "dep"), "npm", append([]string{"pack", "--pack-destination", dir}, offline...)...)
	write(t, dir, "app/package.json", `{"name": "app", "version": "1.0.0", "dependencies": {"dep": "file:../dep-1.0.0.tgz"}}`)
	app := filepath.Join(dir, "app")
	run(t, app, "npm", append([]string{"install", "--package-lock-only"}, offline...)...)
	run(t, app, "npm", append([]string{"ci"}, offline...)...)
	run(t, app, "npm", append([]string{"ci"}, offline...)...) // replaces the first
	return run(t, app, "node", "-e", "console.log(require('dep')(), require('dep/data/150.js'))") +
		run(t, app, "node_modules/.bin/dep") + listing(t, filepath.Join(app, "node_modules/dep"), 0)
}

// tookTime matches the time in the output of go test.
var tookTime = regexp.MustCompile(`\t[0-9.]+s\n`)

func goBuild(t *testing.T, dir string) string {
	write(t, dir, "go.mod", "module example.invalid/small\n\ngo 1.21\n")
	write(t, dir, "main.go", "package main\n\nimport \"example.invalid/small/sum\"\n\nfunc main() { println(sum.Of(1, 2)) }\n")
	write(t, dir, "sum/sum.go", "package sum\n\nfunc Of(a, b int) int { return a + b }\n")
	write(t, dir, "sum/sum_test.go", "package sum\n\nimport \"testing\"\n\nfunc TestOf(t *testing.T) {\n\tif Of(1, 2) != 3 {\n\t\tt.Fatal()\n\t}\n}\n")
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "GOCACHE=" + os.Getenv("GOCACHE"), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOTOOLCHAIN=local", "CGO_ENABLED=0", "TMPDIR=" + os.TempDir()}
	out := ""
	for _, args := range [][]string{{"go", "build", "-o", "small", "."}, {"./small"}, {"go", "vet", "./..."}, {"go", "test", "-count=1", "./..."}} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Path, cmd.Err = args[0], nil
		if !strings.Contains(args[0], "/") {
			cmd.Path, cmd.Err = exec.LookPath(args[0])
		}
		cmd.Dir, cmd.Env = dir, env
		said, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: got err %v, said %s; want err == nil", args, err, said)
		}
		out += tookTime.ReplaceAllString(string(said), "") + "\n"
	}
	return out
}

func makeFiles(t *testing.T, dir string) string {
	write(t, dir, "Makefile", `
all: sum
%.in:
	echo $* > $@
%.out: %.in
	sed 's/$$/!/' $< > $@.tmp && mv $@.tmp $@
sum: $(foreach n,$(shell seq 100),$(n).out)
	cat $^ > $@
`)
	first := run(t, dir, "make", "-s", "-j4")
	again := run(t, dir, "make", "-j4")
	return first + again + run(t, dir, "tail", "-n3", "sum") + listing(t, dir, 0)
}

// copies makes copies of a tree in every way, and compares them.
func copies(t *testing.T, dir string) string {
	for i := range 100 {
		write(t, dir, fmt.Sprintf("tree/d%d/f%d", i%7, i), strings.Repeat("x", i*100))
	}
	write(t, dir, "tree/run", "#!/bin/sh\n")
	for _, err := range []error{
		os.Chmod(filepath.Join(dir, "tree/run"), 0o750),
		os.Symlink("d1/f1", filepath.Join(dir, "tree/link")),
		os.Link(filepath.Join(dir, "tree/d1/f1"), filepath.Join(dir, "tree/d2/same")),
		unix.Mkfifo(filepath.Join(dir, "tree/fifo"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	run(t, dir, "sh", "-c", "find tree -exec touch -h -d '2001-02-03 04:05:06' {} +")
	run(t, dir, "cp", "-a", "tree", "cp")
	run(t, dir, "sh", "-c", "mkdir tar && tar cf - -C tree . | tar xf - -C tar")
	run(t, dir, "rsync", "-aH", "tree/", "rsync/")
	again := run(t, dir, "rsync", "-aH", "--itemize-changes", "tree/", "rsync/")
	if again != "" {
		t.Errorf("a second rsync in %s transfers:\n%s", dir, again)
	}
	run(t, dir, "sh", "-c", "cd tree && zip -qry ../all.zip . -x fifo && mkdir ../zip && cd ../zip && unzip -q ../all.zip")
	out := ""
	for _, name := range []string{"tree", "cp", "tar", "rsync", "zip"} {
		out += name + "\n" + listing(t, filepath.Join(dir, name), 1e9)
	}
	return out
}

// editors change files by writing new ones and renaming them.
func editors(t *testing.T, dir string) string {
	for i := range 20 {
		write(t, dir, fmt.Sprintf("text%d", i), "one\ntwo\nthree\n")
	}
	run(t, dir, "cp", "text0", "old")
	run(t, dir, "sh", "-c", "sed -i.orig 's/two/2/' text*[0-9]")
	run(t, dir, "sh", "-c", "printf '1d\\na\\nmore\\n.\\nw\\nq\\n' | ed -s text0")
	run(t, dir, "sh", "-c", "diff -u --label old --label new old text0 > change || true")
	run(t, dir, "sh", "-c", "cp old new && patch -s -b new < change && cmp new text0")
	return listing(t, dir, 0)
}

// smallFiles does what an installation of packages does.
func smallFiles(t *testing.T, dir string) string {
	write(t, dir, "install.py", `
import compileall, os, shutil, tempfile
for i in range(40):
    tmp = tempfile.mkdtemp(dir=".")
    for j in range(15):
        with open(f"{tmp}/m{j}.py", "w") as f:
            f.write(f"value = {i * j}\n")
        os.chmod(f"{tmp}/m{j}.py", 0o644)
    os.chmod(tmp, 0o755)
    os.rename(tmp, f"pkg{i}")
    open(f"pkg{i}/__init__.py", "w").close()
compileall.compile_dir(".", quiet=2, workers=1)
for i in range(20, 40):
    shutil.rmtree(f"pkg{i}")
import pkg7.m3
print(pkg7.m3.value, sorted(os.listdir(".")))
`)
	return run(t, dir, "python3", "install.py") + listing(t, dir, 0)
}

// listing describes a tree. It has modification times if they are below newest.
func listing(t *testing.T, dir string, newest int64) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(p, &st)
		}
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		fmt.Fprintf(&b, "%s %o %d", rel, st.Mode, st.Nlink)
		if st.Mtim.Sec < newest {
			fmt.Fprintf(&b, " at %d", st.Mtim.Sec)
		}
		switch {
		case d.Type().IsRegular() && filepath.Ext(p) != ".pyc":
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			b.WriteString(" " + digest(data))
		case d.Type() == os.ModeSymlink:
			to, _ := os.Readlink(p)
			b.WriteString(" to " + to)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
