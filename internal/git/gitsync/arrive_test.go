package gitsync

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// made makes a repository inside, in the directory sub of the working tree, without its half on
// the host.
func (w *world) made(script string) (b *box, host string) {
	w.t.Helper()
	dir := filepath.Join(w.root, "made")
	sub := filepath.Join(w.repo, "sub")
	b = &box{dir: dir, env: []string{"GIT_DIR=" + dir + "/git", "GIT_WORK_TREE=" + sub}}
	for _, d := range []string{sub, dir, dir + "/state", dir + "/host"} {
		if err := os.Mkdir(d, 0o755); err != nil {
			w.t.Fatal(err)
		}
	}
	if r := shell(sub, b.env, script); r.err != nil {
		w.t.Fatal(r.err)
	}
	host = filepath.Join(sub, ".git")
	b.pair = &Pair{Host: dir + "/host", Worktree: sub, Private: dir + "/git", State: dir + "/state", Dir: sub, Name: "box", Inside: plain{sub, b.env}}
	return b, host
}

func (w *world) arrive(b *box, host string) Report {
	w.t.Helper()
	r, err := b.pair.Arrive(w.t.Context(), "")
	if err == nil {
		err = os.Rename(b.pair.Host, host)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	b.pair.Host = host
	return r
}

// A repository that is made inside is one on the host, with references, HEAD, what is staged and
// stashes, and of the configuration with what runs nothing.
func TestArrive(t *testing.T) {
	w := newWorld(t, 0)
	b, host := w.made(`git init -q -b trunk; echo a >a; git add a; git commit -qm one; git tag v1; git branch side; echo b >>a; git stash -q
echo c >c; git add c; git config user.name Agent; git config core.editor 'touch ran'; git config core.hooksPath /evil; git config alias.x '!touch ran'
git remote add origin https://token:x@example.com/x.git; git remote add up git@example.com:x.git; git remote add bad 'ext::sh -c x'; git remote add path /tmp/x
git config branch.trunk.remote origin; git config branch.trunk.merge refs/heads/trunk; git config branch.side.remote 'ext::sh -c x'; git config branch.side.merge refs/heads/x
git update-ref refs/remotes/origin/trunk trunk; printf '#!/bin/sh\ntouch ran\n' >$GIT_DIR/hooks/pre-commit; chmod +x $GIT_DIR/hooks/pre-commit`)
	r := w.arrive(b, host)
	if said := strings.Join(r.Said, "\n"); !strings.Contains(said, `the remote "ext::sh -c x" is left out`) || !strings.Contains(said, `the remote "/tmp/x" is left out`) {
		t.Errorf("it says %q", said)
	}
	sub := filepath.Join(w.repo, "sub")
	in, out := shell(sub, b.env, lookScript), shell(sub, nil, lookScript)
	if in.out != out.out || out.err != nil || !strings.Contains(out.out, "refs/heads/side") {
		t.Errorf("inside %q, on the host %q, %v", in.out, out.out, out.err)
	}
	config := shell(sub, nil, "git config --list --local; ls .git/hooks; git rev-parse origin/trunk").out
	for _, not := range []string{"core.editor", "hookspath", "alias", "ext::", "/tmp/x", "token", "pre-commit", "branch.side", "core.worktree"} {
		if strings.Contains(config, not) {
			t.Errorf("the host's configuration has %q: %s", not, config)
		}
	}
	for _, want := range []string{"user.name=Agent", "remote.origin.url=https://example.com/x.git", "remote.origin.fetch=+refs", "remote.up.url=git@", "branch.trunk.remote=origin", "core.bare=false"} {
		if !strings.Contains(config, want) {
			t.Errorf("the host's configuration has not %q: %s", want, config)
		}
	}
	// From then on it is a repository as any other.
	if r := shell(sub, b.env, "git commit -qm two --no-verify -n"); r.err != nil {
		t.Fatal(r.err)
	}
	for range 2 {
		if r, err := b.pair.Sync(t.Context()); err != nil || len(r.Said)+len(r.Stays) > 0 {
			t.Fatal(r, err)
		}
	}
	if at := shell(sub, nil, "git log --format=%s trunk; git status --porcelain").out; at != "two\none\n" {
		t.Errorf("the host has %q", at)
	}
	if left, err := b.pair.AsLeft(t.Context()); !left || err != nil {
		t.Errorf("the host's is not as it was left: %v", err)
	}
	for _, change := range []string{"git branch new", "git tag -d v1; git branch -D new; git switch -qc other", "git switch -q trunk; git branch -D other; git update-ref refs/x/y HEAD"} {
		if r := shell(sub, nil, change); r.err != nil {
			t.Fatal(r.err)
		}
		if left, err := b.pair.AsLeft(t.Context()); left || err != nil {
			t.Errorf("%s: it is as it was left: %v", change, err)
		}
	}
}

// So is one without commits, or with objects that have names of another format.
func TestArriveEmpty(t *testing.T) {
	for what, script := range map[string]string{
		"empty": "git init -q -b trunk", "staged": "git init -q -b main; echo a >a; git add a",
		"sha256": "git init -q --object-format=sha256; git commit -q --allow-empty -m one", "detached": "git init -q; git commit -q --allow-empty -m one; git checkout -q --detach",
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, 0)
			b, host := w.made(script)
			if r := w.arrive(b, host); len(r.Said)+len(r.Stays) > 0 {
				t.Errorf("it says %q, %q", r.Said, r.Stays)
			}
			sub := filepath.Join(w.repo, "sub")
			in, out := shell(sub, b.env, lookScript), shell(sub, nil, lookScript)
			if in.out != out.out {
				t.Errorf("inside %q, on the host %q, %v", in.out, out.out, out.err)
			}
		})
	}
}

// What git on the host refuses does not arrive, and a HEAD that names no branch is no place of the
// host's.
func TestArriveRefused(t *testing.T) {
	w := newWorld(t, 0)
	b, host := w.made(`git init -q -b main; git commit -q --allow-empty -m one
t=$(git mktree --missing </dev/null); bad=$(printf '100644 blob %s\t.git' $(echo | git hash-object -w --stdin) | git mktree); git update-ref refs/heads/bad $(git commit-tree -m bad $bad)
printf 'ref: refs/heads/../../x\n' >$GIT_DIR/HEAD`)
	if _, err := b.pair.Arrive(t.Context(), ""); err == nil {
		t.Error("git inside fails, and it arrives")
	}
	_ = os.RemoveAll(b.pair.Host)
	if err := os.Mkdir(b.pair.Host, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.pair.Private+"/HEAD", []byte("ref: refs/heads/main\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := w.arrive(b, host)
	if !strings.Contains(r.Pending, "refs/heads/bad stays inside: the objects inside are refused") {
		t.Errorf("pending is %q", r.Pending)
	}
	if at := shell(filepath.Join(w.repo, "sub"), nil, "git for-each-ref --format='%(refname)'").out; at != "refs/heads/main\n" {
		t.Errorf("the host has %q", at)
	}
}

// linked returns the pair of a linked working tree that both sides have.
func (w *world) linked(name string) (main, linked *box) {
	main = w.boxes[0]
	at := filepath.Join(w.repo, name)
	linked = &box{dir: main.dir, env: []string{"GIT_DIR=" + main.pair.Private + "/worktrees/" + name, "GIT_WORK_TREE=" + at}}
	p := *main.pair
	p.Host, p.Worktree, p.Private = filepath.Join(w.repo, ".git/worktrees", name), at, main.pair.Private+"/worktrees/"+name
	p.State, p.Common, p.Dir, p.Inside = filepath.Join(main.dir, "linked-"+name), main.pair.Private, at, plain{at, linked.env}
	linked.pair, p.Others = &p, []Other{{main.pair.Host, main.pair.Private}}
	main.pair.Others = []Other{{p.Host, p.Private}}
	return main, linked
}

// both synchronises a linked working tree and its repository.
func (w *world) both(main, linked *box) (said string) {
	w.t.Helper()
	for _, b := range []*box{linked, main} {
		r, err := b.pair.Sync(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		said += strings.Join(slices.Concat(r.Said, r.Stays), "\n")
	}
	return said
}

// A linked working tree of both sides has its own HEAD and index, and shares the references.
func TestLinked(t *testing.T) {
	w := newWorld(t, 0)
	w.host("git worktree add -q wt topic; git -C wt update-index -q --refresh; echo wt >>.git/info/exclude")
	w.add("box", filepath.Join(w.repo, ".git"))
	main, linked := w.linked("wt")
	if r := shell("/", nil, "cp -a "+filepath.Join(w.repo, ".git/worktrees")+" "+main.pair.Private+"; rm "+main.pair.State+"/stamp.json"); r.err == nil {
		t.Log(r.out)
	}
	if err := Begin(linked.pair.Private, linked.pair.State); err != nil {
		t.Fatal(err)
	}
	in := func(script string) string {
		t.Helper()
		r := shell(linked.pair.Worktree, linked.env, script)
		if r.err != nil {
			t.Fatal(r.err)
		}
		return strings.TrimSpace(r.out)
	}
	out := func(script string) string {
		t.Helper()
		r := shell(linked.pair.Worktree, nil, script)
		if r.err != nil {
			t.Fatal(r.err)
		}
		return strings.TrimSpace(r.out)
	}
	same := func(said, want string) {
		t.Helper()
		if said != want {
			t.Errorf("it said %q, want %q", said, want)
		}
		for _, dir := range []string{linked.pair.Worktree, w.repo} {
			env := linked.env
			if dir == w.repo {
				env = main.env
			}
			if a, b := shell(dir, env, lookScript), shell(dir, nil, lookScript); a.out != b.out {
				t.Errorf("%s: inside %q, on the host %q", dir, a.out, b.out)
			}
		}
	}
	in("echo x >>src/t; git commit -qam linked")
	same(w.both(main, linked), "")
	w.must("echo y >>src/a; git commit -qam main")
	in("echo x >>src/t; git add src/t")
	same(w.both(main, linked), "")
	out("git commit -qm host")
	w.host("echo z >>src/a; git commit -qam main-host")
	same(w.both(main, linked), "")
	in("git commit -q --amend -m rewritten; git checkout -qb other; echo 1 >new; git add new; git commit -qm new")
	if said := w.both(main, linked); !strings.HasPrefix(said, "topic was rewritten in the sandbox: it was ") {
		t.Errorf("it said %q", said)
	}
	same(w.both(main, linked), "")
	// The branch of a working tree goes together with its index, also if the repository's own
	// command has moved it.
	w.must("git update-ref refs/heads/other topic")
	in("git reset -q --hard")
	if said := w.both(main, linked); !strings.HasPrefix(said, "other was rewritten in the sandbox: it was ") {
		t.Errorf("it said %q", said)
	}
	same(w.both(main, linked), "")
	// Both move it.
	in("git commit -q --allow-empty -m in")
	out("git commit -q --allow-empty -m out")
	if said := w.both(main, linked); !strings.Contains(said, "other: both have changed it: the sandbox's commits are at wolffia/box/other") {
		t.Errorf("it said %q", said)
	}
	in("git merge -q --no-edit host/other")
	w.both(main, linked)
	if at := w.host("git for-each-ref refs/heads/wolffia"); at != "" {
		t.Errorf("aside are %s", at)
	}
	same(w.both(main, linked), "")
}

// A linked working tree that is made inside has its half on the host.
func TestArriveLinked(t *testing.T) {
	w := newWorld(t, 1)
	w.must("git worktree add -q wt topic; git worktree add -q --detach free v1")
	main := w.boxes[0]
	w.both(main, main)
	for _, name := range []string{"wt", "free"} {
		_, linked := w.linked(name)
		dir := filepath.Join(w.root, "new")
		for _, d := range []string{dir, linked.pair.State, filepath.Join(w.repo, ".git/worktrees")} {
			if err := os.MkdirAll(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := linked.pair.ArriveLinked(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(dir, linked.pair.Host); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(w.repo, name, ".git")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(w.repo, name, ".git"), []byte("gitdir: "+linked.pair.Host+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if said := w.both(main, linked); said != "" {
			t.Errorf("it said %q", said)
		}
		if a, b := shell(linked.pair.Worktree, linked.env, lookScript), shell(linked.pair.Worktree, nil, lookScript); a.out != b.out || b.err != nil {
			t.Errorf("%s: inside %q, on the host %q, %v", name, a.out, b.out, b.err)
		}
		if left, err := linked.pair.AsLeft(t.Context()); !left || err != nil {
			t.Errorf("%s is not as it was left: %v", name, err)
		}
	}
	w.host("git fsck --strict; git worktree prune; git worktree list | grep -q wt")
}
