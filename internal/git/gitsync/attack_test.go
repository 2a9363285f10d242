package gitsync

import (
	"context"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// evil is a script that makes the branch evil, of a tree with one entry of that name and mode.
func evil(w *world, name string) string {
	file := filepath.Join(w.root, "tree")
	object, err := hex.DecodeString(w.must("echo x | git hash-object -w --stdin"))
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(file, append([]byte("100644 "+name+"\x00"), object...), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return "git update-ref refs/heads/evil $(git commit-tree -m e -p main $(git hash-object -t tree -w --literally " + file + "))"
}

// refuses checks that the branch evil stays inside, and says why, while the branch good crosses.
func (w *world) refuses(script, why string) {
	w.t.Helper()
	w.must(script + "; git branch -f good v1")
	if w.revIn("evil") == "" {
		w.t.Fatal("there is no branch evil inside")
	}
	w.sync()
	w.equal(w.rev("refs/heads/evil"), "")
	w.says("refs/heads/evil stays inside: " + why)
	w.follows("good")
	if w.last.Pending == "" {
		w.t.Error("nothing is pending")
	}
	w.equal(w.host("git fsck --strict --no-dangling 2>&1; git for-each-ref refs/wolffia; ls .git/objects | grep incoming; true"), "")
	w.must("git update-ref -d refs/heads/evil; git branch -D good")
	w.sync()
	w.equal(w.last.Pending, "")
}

const refusedText = "the objects inside are refused"

// attacks are what a sandbox may try with its own git directory.
var attacks = []struct {
	name string
	do   func(w *world)
}{
	{"tree entries that are .git", func(w *world) {
		for _, n := range []string{".git", ".GIT", "GIT~1", ".g\u200cit", "..", ".", "a/b", `.git\x`, "git~1"} {
			w.refuses(evil(w, n), refusedText)
		}
	}},
	{".gitmodules", func(w *world) {
		for _, text := range []string{
			"[submodule \"../../x\"]\npath=x\nurl=https://x/y", "[submodule \"x\"]\npath=x\nurl=-u./payload", "[submodule \"x\"]\npath=-x\nurl=https://x",
			"[submodule \"x\"]\npath=x\nurl=https://x\nupdate=!touch pwned",
		} {
			w.refuses("b=$(printf %s "+quoteTest(text)+" | git hash-object -w --stdin); t=$(printf \"100644 blob $b\\t.gitmodules\\n\" | git mktree); git update-ref refs/heads/evil $(git commit-tree -m e $t)", refusedText)
		}
		w.refuses("b=$(echo src/a | git hash-object -w --stdin); t=$(printf \"120000 blob $b\\t.gitmodules\\n\" | git mktree); git update-ref refs/heads/evil $(git commit-tree -m e $t)", refusedText)
	}},
	{"malformed commit", func(w *world) {
		w.refuses(`git update-ref refs/heads/evil $(printf 'tree %s\nauthor a <a@x> 1 +0000\nauthor b\n\nx\n' $(git rev-parse main^{tree}) | git hash-object -t commit -w --stdin --literally)`, refusedText)
	}},
	{"missing objects", func(w *world) {
		w.refuses(`echo y | git hash-object -w --stdin >../b; b=$(cat ../b); t=$(printf "100644 blob $b\tq\n" | git mktree); git update-ref refs/heads/evil $(git commit-tree -m e $t); rm -f $GIT_DIR/objects/$(echo $b | cut -c1-2)/$(echo $b | cut -c3-)`, refusedText)
	}},
	{"a branch that is not a commit", func(w *world) {
		w.refuses("git rev-parse main^{tree} >$GIT_DIR/refs/heads/evil", "it is not a commit")
	}},
	{"HEAD of malformed commits", func(w *world) {
		w.must(`c=$(printf 'tree %s\nauthor a <a@x> 1 +0000\nauthor b\n\nx\n' $(git rev-parse main^{tree}) | git hash-object -t commit -w --stdin --literally); git update-ref --no-deref HEAD $c; git branch good v1`)
		before := w.rev("HEAD")
		w.must("git symbolic-ref -q HEAD || echo $(git rev-parse HEAD) >$GIT_DIR/HEAD")
		w.sync()
		w.equal(w.rev("HEAD"), before)
		w.says(refusedText)
		w.follows("good")
	}},
	{"replace", func(w *world) {
		w.must("git replace -f main v1; " + commitTo("topic"))
		w.sync()
		w.equal(w.host("git replace"), "")
		w.follows("topic")
	}},
	{"a directory that looks like a git directory", func(w *world) {
		w.must("mkdir -p d/objects d/refs; echo x >d/HEAD; echo x >d/objects/x; echo x >d/refs/x; git add d; git commit -qm d")
		w.sync()
		w.says("main: d in a commit looks like a git directory: the sandbox's commits are at wolffia/box/main")
		w.equal(w.rev("wolffia/box/main"), w.revIn("main"))
	}},
	{"a hidden name that is not tracked", func(w *world) {
		w.boxes[0].pair.Hidden = func(path string) bool { return path == "conf/.env" }
		w.host("mkdir conf; echo SECRET >conf/.env; echo conf >>.git/info/exclude")
		w.must("b=$(echo guess | git hash-object -w --stdin); git update-index --add --cacheinfo 100644,$b,conf/.env; git commit -qm e")
		w.sync()
		w.says("main: a commit adds conf/.env, which the rules hide and which is here, not tracked: the sandbox's commits are at wolffia/box/main")
		w.equal(w.host("git ls-files conf"), "")
		w.equal(w.rev("wolffia/box/main"), w.revIn("main"))
	}},
	{"a hidden name that is staged", func(w *world) {
		w.boxes[0].pair.Hidden = func(path string) bool { return path == ".env" }
		w.host("echo SECRET >.env; echo .env >>.git/info/exclude")
		w.must("b=$(echo guess | git hash-object -w --stdin); git update-index --add --cacheinfo 100644,$b,.env")
		w.sync()
		w.says("the staged changes stay inside: a commit adds .env")
		w.equal(w.host("git ls-files .env"), "")
	}},
	{"a hidden name that is not there", func(w *world) {
		w.boxes[0].pair.Hidden = func(path string) bool { return path == ".env" }
		w.must("b=$(echo guess | git hash-object -w --stdin); git update-index --add --cacheinfo 100644,$b,.env; git commit -qm e")
		w.sync()
		w.follows("main")
	}},
	{"tree bomb", func(w *world) {
		w.boxes[0].pair.names, w.boxes[0].pair.time = 200_000, 2*time.Second
		w.must(`b=$(echo x | git hash-object -w --stdin); t=$(for k in 0 1 2 3 4 5 6 7 8 9; do printf '100644 blob %s\tf%s\n' $b $k; done | git mktree)
for l in 1 2 3 4 5 6 7 8 9 10; do t=$(for k in 0 1 2 3 4 5 6 7 8 9; do printf '040000 tree %s\td%s\n' $t $k; done | git mktree); done; git update-ref refs/heads/main $(git commit-tree -m bomb -p main $t)`)
		begin := time.Now()
		w.sync()
		w.t.Logf("a tree of 10^11 names took %v", time.Since(begin))
		w.says("main: a commit has more than 200000 names: the sandbox's commits are at wolffia/box/main")
		w.equal(w.host("git status --porcelain"), "")
	}},
	{"directories in each other", func(w *world) {
		w.must(`b=$(echo x | git hash-object -w --stdin); t=$(printf '100644 blob %s\tf\n' $b | git mktree)
k=0; while [ $k -lt 510 ]; do t=$(printf '040000 tree %s\td\n' $t | git mktree); k=$((k+1)); done; git update-ref refs/heads/main $(git commit-tree -m deep -p main $t)`)
		w.sync()
		w.says("main: a commit has directories more than 500 deep")
	}},
	{"20,000 refs", func(w *world) {
		w.must(`c=$(git rev-parse v1); for k in $(seq 20000); do echo "create refs/heads/b$k $c"; done | git update-ref --stdin`)
		begin := time.Now()
		r, err := w.boxes[0].pair.Sync(w.t.Context())
		w.t.Logf("20,000 refs took %v", time.Since(begin))
		if err == nil || !strings.Contains(err.Error(), "more than 10000 refs were changed inside: take what you need with wolffia apply --git=BRANCH") || r.Pending == "" {
			w.t.Errorf(`Sync: got r %+v, err %v; want err != nil and err.Error() contains %q and r.Pending != ""`,
				r, err, "more than 10000 refs were changed inside: take what you need with wolffia apply --git=BRANCH")
		}
		w.equal(w.host("git branch | wc -l"), "2")
	}},
	{"a pack over the limit", func(w *world) {
		w.boxes[0].pair.bytes = 1 << 20
		w.refuses("b=$(head -c 3000000 /dev/urandom | git hash-object -w --stdin); t=$(printf \"100644 blob $b\\tq\\n\" | git mktree); git update-ref refs/heads/evil $(git commit-tree -m e $t)", refusedText)
	}},
	{"git inside that lies", func(w *world) {
		fake := filepath.Join(w.root, "fake")
		if err := os.MkdirAll(fake, 0o700); err != nil {
			w.t.Fatal(err)
		}
		for what, script := range map[string]string{
			"endless":       "yes refs/heads/main",
			"names":         "printf '\\nrefs/heads/main\\n%040d refs/heads/a\\000b \\n.\\n.\\n' 1",
			"format":        "printf '\\nrefs/heads/main\\n%064d refs/heads/a \\n.\\n.\\n' 1",
			"option":        "printf -- '\\n--upload-pack=x\\n.\\n.\\n'",
			"head":          "printf '\\nrefs/heads/main lock\\n.\\n.\\n'",
			"half":          "printf '\\nrefs/heads/main\\n'",
			"other objects": "printf '\\nrefs/heads/main\\n%040d refs/heads/a \\n.\\n.\\n' 1",
		} {
			if err := os.WriteFile(filepath.Join(fake, "sh"), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
				w.t.Fatal(err)
			}
			w.host("git update-ref refs/heads/asks main") // else a first sync asks nothing
			const mine = "git symbolic-ref HEAD; git rev-parse HEAD; git for-each-ref refs/heads/a refs/heads/wolffia; git status --porcelain"
			before := w.try(mine)
			b := w.boxes[0]
			b.pair.Inside = lying{plain{w.repo, b.env}, filepath.Join(fake, "sh")}
			r, err := b.pair.Sync(w.t.Context())
			if err == nil && r.Pending == "" {
				w.t.Errorf(`%s: got r %+v; want err != nil or r.Pending != ""`, what, r)
			}
			w.equal(w.try(mine), before)
		}
	}},
	{"no git inside", func(w *world) {
		sh := filepath.Join(w.root, "sh")
		if err := os.WriteFile(sh, []byte("#!/bin/sh\nexit 19\n"), 0o700); err != nil {
			w.t.Fatal(err)
		}
		b := w.boxes[0]
		w.host("git update-ref refs/heads/asks main")
		b.pair.Inside = lying{plain{w.repo, b.env}, sh}
		r, err := b.pair.Sync(w.t.Context())
		if err != nil || r.Pending != "" || len(r.Stays) != 1 || !strings.Contains(r.Stays[0], "the sandbox has no git") {
			w.t.Errorf(`Sync: got r %+v, err %v; want err == nil and r.Pending == "" and len(r.Stays) == 1 and r.Stays[0] contains "the sandbox has no git"`,
				r, err)
		}
	}},
	{"links in the place of the private copy's files", func(w *world) {
		p := w.boxes[0].pair.Private
		w.must("mkdir -p ../other/objects; rm -r $GIT_DIR/logs $GIT_DIR/info; for f in logs info lfs; do ln -s $PWD/../other $GIT_DIR/$f; done; ln -s /etc/passwd $GIT_DIR/MERGE_HEADX; ln -s ../../.. $GIT_DIR/host/1; ln -s gone $GIT_DIR/refs/gone; " + agentCommits)
		w.sync()
		w.follows("main")
		if err := os.Rename(p, p+".away"); err != nil {
			w.t.Fatal(err)
		}
		if err := os.Symlink(p+".away", p); err != nil {
			w.t.Fatal(err)
		}
		if _, err := w.boxes[0].pair.Sync(w.t.Context()); err == nil {
			w.t.Error("a link in the place of the copy was followed")
		}
	}},
}

// A lying is a sandbox whose shell is another program.
type lying struct {
	plain
	sh string
}

func (l lying) Run(ctx context.Context, args []string, in io.Reader, out io.Writer) (int, error) {
	if args[0] == "sh" {
		args = append([]string{l.sh}, args[1:]...)
	}
	return l.plain.Run(ctx, args, in, out)
}

func TestAttacks(t *testing.T) {
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) { a.do(newWorld(t, 1)) })
	}
}
