package gitsync

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
)

// A busyInside does something before, and after, the sync runs a program inside whose script has a
// part.
type busyInside struct {
	Inside
	part          string
	before, after func()
}

func (b busyInside) Run(ctx context.Context, args []string, in io.Reader, out io.Writer) (int, error) {
	is := strings.Contains(strings.Join(args, " "), b.part)
	if is && b.before != nil {
		b.before()
	}
	status, err := b.Inside.Run(ctx, args, in, out)
	if is && b.after != nil {
		b.after()
	}
	return status, err
}

// during has a script run inside before the first, or each, program of a sync whose script has a
// part.
func (w *world) during(part, script string, each bool) {
	p := w.boxes[0].pair
	act := func() { w.must(script) }
	if !each {
		act = sync.OnceFunc(act)
	}
	p.Inside = busyInside{p.Inside, part, act, nil}
}

// The user's git inside works between the steps of a sync.
func TestInsideBetween(t *testing.T) {
	// An index of the same size in the same file, as git's next but one index often is.
	const inPlace = "cp $GIT_DIR/index i; GIT_INDEX_FILE=i git update-index --chmod=+x n; cat i >$GIT_DIR/index; rm i"
	for what, c := range map[string]struct{ host, part, inside, status, head string }{
		"a staged mode": {"echo u >>src/a; git add src/a", "cat >\"$i.lock\"", inPlace, "MM n\n M src/a", "refs/heads/main"},
		"a switch":      {userCommits, "read-tree", "git checkout -q topic", "", "refs/heads/topic"},
		"a new branch":  {userCommits, "read-tree", "git checkout -qb new", "", "refs/heads/new"},
		"a commit":      {userCommits, "read-tree", "echo y >>src/b; git commit -qam y", "", "refs/heads/main"},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, 1)
			w.must("git update-index --chmod=+x n; git update-index --chmod=-x n")
			w.sync()
			w.host(c.host)
			w.during(c.part, c.inside, false)
			w.sync()
			w.equal(w.must("git symbolic-ref HEAD"), c.head)
			w.equal(w.must("git status --porcelain"), c.status)
			w.equal(w.must("git fsck --strict --no-dangling 2>&1"), "")
			w.equal(w.try(left), "")
		})
	}
}

// A state that git inside keeps changing while it is read does not move HEAD, the index or
// references inside; commits cross.
func TestUnsteady(t *testing.T) {
	w := newWorld(t, 1)
	w.host("git branch theirs main; git branch old topic")
	w.must("echo x >>src/a; git commit -qam x; echo y >>src/a; git add src/a")
	inside := w.boxes[0].pair.Inside
	w.during("for-each-ref", "git checkout -q -f topic; git checkout -q -f main; git commit -q --allow-empty -m more", true)
	r, err := w.boxes[0].pair.Sync(t.Context())
	if !errors.Is(err, ErrBusy) || !strings.Contains(r.Pending, "git is running inside in "+w.repo) {
		t.Errorf("Sync: got r %+v, err %v; want err is ErrBusy and r.Pending contains %q", r, err, "git is running inside in "+w.repo)
	}
	w.equal(w.host("git symbolic-ref HEAD"), "refs/heads/main")
	w.equal(w.revIn("theirs"), "")
	w.boxes[0].pair.Inside = inside
	w.sync()
	w.follows("main", "theirs", "old")
	w.clean()
}

// What crosses is the sandbox's also if that has gone on meanwhile: it is not taken for the user's
// afterwards.
func TestStagedThenCommitted(t *testing.T) {
	for _, at := range []string{"inside", "before objects", "journal", "index", "unlocked"} {
		t.Run(at, func(t *testing.T) {
			w := newWorld(t, 1)
			w.must("echo x >>src/a; git add src/a")
			commit := sync.OnceFunc(func() { w.must("git commit -qm x; echo y >>src/a; git commit -qam y; echo z >>src/a; git add src/a") })
			p := w.boxes[0].pair
			p.at = func(name string) {
				if name == at {
					commit()
				}
			}
			if at == "inside" {
				p.Inside = busyInside{p.Inside, "g write-tree", commit, nil}
			}
			w.sync()
			w.sync()
			w.equal(w.said(), "")
			w.follows("main")
			w.equal(w.host("git status --porcelain"), "M  src/a")
		})
	}
}

// git of the user's finds its index free while a sync asks what is staged, and a sync does not
// mind that it is not.
func TestStagedWithoutLock(t *testing.T) {
	w := newWorld(t, 1)
	w.must("echo x >>src/a; git add src/a")
	p, inside := w.boxes[0].pair, w.boxes[0].pair.Inside
	asked := false
	p.Inside = busyInside{
		inside, "g write-tree",
		func() { asked = true; w.must("touch $GIT_DIR/index.lock") },
		func() { w.must("rm $GIT_DIR/index.lock") },
	}
	w.sync()
	if !asked {
		t.Error("nothing has asked for a tree")
	}
	w.equal(w.host("git status --porcelain"), "M  src/a")
}

// A stash that the host has dropped is dropped inside, and no other one.
func TestStashBetween(t *testing.T) {
	w := newWorld(t, 1)
	w.host("echo u >>src/a; git stash push -qm user")
	w.sync()
	w.host("git stash drop -q")
	w.during("g stash drop", "echo s >>src/b; git stash push -qm agent", false)
	w.sync()
	const list = "git stash list --format=%gs"
	w.equal(w.must(list), "On main: agent")
	w.equal(w.host(list), "On main: agent")
}

// A branch stays where it is while a rebase of it is in progress inside: git moves it in the end,
// from there.
func TestRebasedBranchStays(t *testing.T) {
	t.Run("here", func(t *testing.T) { rebasedBranchStays(t, newWorld(t, 1), "") })
	t.Run("in a second working tree", func(t *testing.T) {
		w := newWorld(t, 1)
		w.must("git checkout -q --detach; git worktree add -q ../wt main")
		rebasedBranchStays(t, w, "cd ../wt; unset GIT_WORK_TREE; export GIT_DIR=$GIT_DIR/worktrees/wt; ")
	})
}

func rebasedBranchStays(t *testing.T, w *world, there string) {
	w.must(there + "git commit -q --allow-empty -m a1; git commit -q --allow-empty -m a2")
	w.sync()
	was := w.revIn("main")
	w.must(there + "GIT_SEQUENCE_EDITOR='sed -i s/^pick/edit/' git rebase -q -i --keep-empty HEAD~2; git commit -q --amend --allow-empty -m b1")
	w.host("git update-ref refs/heads/main $(git commit-tree -p main -m user main^{tree})")
	w.sync()
	w.equal(w.revIn("main"), was)
	w.equal(w.revIn("host/main"), w.rev("main"))
	w.must(there + "git rebase --continue && git commit -q --amend --allow-empty -m b2 && git rebase --continue")
	w.sync()
	w.says("main: both have changed it")
	w.equal(w.rev("wolffia/box/main"), w.revIn("main"))
	w.equal(w.host("git log -1 --format=%s main"), "user")
}

// A stash that has just crossed is dropped inside before the sync ends: it is removed on both
// sides.
func TestStashPoppedMeanwhile(t *testing.T) {
	w := newWorld(t, 1)
	w.must("echo x >>src/a; git stash -q")
	pop := sync.OnceFunc(func() { w.must("git stash pop -q") })
	w.boxes[0].pair.at = func(failpoint string) {
		if failpoint == "base saved" {
			pop()
		}
	}
	w.sync()
	w.equal(w.must("git stash list"), "")
	w.equal(w.host("git stash list"), "")
	w.equal(w.must("git status --porcelain"), "M src/a")
}
