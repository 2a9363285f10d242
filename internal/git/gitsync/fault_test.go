package gitsync

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/testenv"
)

// victim is the variable that makes a test program one sync that is killed: its failpoint, and
// what makes the pair.
const victim = "GITSYNC_TEST_VICTIM"

// TestVictim is the process that TestKills kills.
func TestVictim(t *testing.T) {
	f := strings.Split(os.Getenv(victim), "\n")
	if len(f) != 5 {
		t.Skip("it is a part of TestKills")
	}
	b := &box{env: []string{"GIT_DIR=" + f[2], "GIT_WORK_TREE=" + f[1]}}
	p := &Pair{Host: f[1] + "/.git", Worktree: f[1], Private: f[2], State: f[3], Dir: f[1], Name: f[4], Inside: plain{f[1], b.env}}
	p.at = func(name string) {
		if name == f[0] {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	_, err := p.Sync(t.Context())
	t.Fatalf("the failpoint %s was not reached: %v", f[0], err)
}

// kill runs a sync in a process that is killed at a failpoint.
func (w *world) kill(failpoint string) {
	w.t.Helper()
	p := w.boxes[0].pair
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestVictim$")
	cmd.Env = append(os.Environ(), victim+"="+strings.Join([]string{failpoint, w.repo, p.Private, p.State, p.Name}, "\n"))
	out, err := cmd.CombinedOutput()
	failed, is := errors.AsType[*exec.ExitError](err)
	if !is || failed.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		w.t.Fatalf("%v: got %s; want is and failed.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL", err, out)
	}
}

const (
	work = "echo x >>src/a; git commit -qam x; git checkout -qb new; echo y >>src/b; git commit -qam y; git branch -D topic; git tag t; git update-ref refs/heads/zz v1; echo z >>src/c; git stash -q"
	// left is what no sync leaves.
	left = "ls -d .git/*.lock .git/index.* .git/objects/*incoming* 2>/dev/null; git for-each-ref refs/wolffia"
)

func TestKills(t *testing.T) {
	for _, at := range []string{"before objects", "pack sent", "objects", "journal", "locked", "refs", "head", "index", "unlocked", "base saved"} {
		t.Run(at, func(t *testing.T) {
			w := newWorld(t, 1)
			w.must(work)
			want := w.in(lookScript)
			w.kill(at)
			t.Log("left: ", w.try(left), w.try("git symbolic-ref HEAD"))
			begin := time.Now()
			w.sync()
			t.Logf("the next sync took %v", time.Since(begin))
			w.equal(w.try(lookScript), want)
			w.equal(w.in(lookScript), want)
			w.equal(w.try(left), "")
			if r := w.sync(); r.Moved {
				t.Errorf("a second sync moves: %+v", r)
			}
		})
		t.Run("staged, "+at, func(t *testing.T) {
			w := newWorld(t, 1)
			w.must("echo x >>src/a; git add src/a")
			w.kill(at)
			w.must("git commit -qm x; echo y >>src/a; git add src/a")
			w.sync()
			w.equal(w.said(), "")
			w.follows("main")
			w.equal(w.host("git status --porcelain"), "M  src/a")
		})
	}
}

// What the user does before the repair is kept.
func TestKilledThenUser(t *testing.T) {
	for _, at := range []string{"refs", "head", "index"} {
		t.Run(at, func(t *testing.T) {
			w := newWorld(t, 1)
			w.must(work)
			w.kill(at)
			if r := shell(w.repo, nil, userCommits); r.err == nil || !strings.Contains(r.err.Error(), "index.lock") {
				t.Errorf("git on the host does not see the lock: %v", r.err)
			}
			w.host("rm .git/index.lock; git branch mine; git tag mytag")
			w.try("git commit -qam mine")
			mine := w.rev("HEAD")
			w.sync()
			w.sync()
			if r := shell(w.repo, nil, "git merge-base --is-ancestor "+mine+" HEAD || git merge-base --is-ancestor "+mine+" main"); r.err != nil {
				t.Errorf("the user's commit is lost: %v; it said %q", r.err, w.said())
			}
			w.follows("mine", "mytag", "zz")
			w.equal(w.try(left), "")
			w.equal(w.host("git fsck --strict --no-dangling 2>&1"), "")
		})
	}
}

// The user moves a reference between the plan and the transaction.
func TestUserBetween(t *testing.T) {
	for what, move := range map[string]struct{ inside, host, ref string }{
		"another branch":  {commitTo("topic"), "git update-ref refs/heads/topic main", "topic"},
		"HEAD's branch":   {agentCommits, userCommits, "main"},
		"the index":       {"echo x >>src/a; git commit -qm x src/a", "echo u >>src/b; git add src/b", ""},
		"HEAD":            {"echo x >>src/a; git commit -qm x src/a", "git checkout -qb other", ""},
		"a file's commit": {"echo x >>src/a; git commit -qm x src/a", "echo u >>src/b; git commit -qm u src/b", "main"},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, 1)
			w.must(move.inside)
			var once sync.Once
			w.boxes[0].pair.at = func(name string) {
				if name == "journal" {
					once.Do(func() { w.host(move.host) })
				}
			}
			w.sync()
			if move.ref != "" {
				w.equal(w.rev("wolffia/box/"+move.ref), w.revIn(move.ref))
				w.says("both have changed it")
			}
			if what == "the index" {
				w.equal(w.host("git status --porcelain"), "M  src/b")
				w.follows("main")
			}
			w.equal(w.try(left), "")
			w.equal(w.host("git fsck --strict --no-dangling 2>&1"), "")
		})
	}
}

// The user's git has its lock.
func TestUsersLock(t *testing.T) {
	w := newWorld(t, 1)
	w.must("echo x >>src/a; git commit -qam x")
	lock := filepath.Join(w.repo, ".git/index.lock")
	w.boxes[0].pair.wait = 50 * time.Millisecond
	for _, at := range []string{"", "journal"} {
		w.boxes[0].pair.at = func(name string) {
			if name == at {
				_ = os.WriteFile(lock, nil, 0o600)
			}
		}
		w.boxes[0].pair.at("")
		r, err := w.boxes[0].pair.Sync(t.Context())
		if !errors.Is(err, ErrBusy) || !strings.Contains(r.Pending, "git is running on the host ("+lock+" exists): nothing was taken over; the next sync tries again") {
			t.Errorf("Sync: got r %+v, err %v; want err is ErrBusy and r.Pending contains %q",
				r, err, "git is running on the host ("+lock+" exists): nothing was taken over; the next sync tries again")
		}
		w.equal(w.try("ls -d .git/index.w* 2>/dev/null; cat .git/index.lock; git for-each-ref refs/wolffia"), "")
		if err := os.Remove(lock); err != nil {
			t.Fatal(err)
		}
	}
	w.boxes[0].pair.at, w.boxes[0].pair.wait = nil, 0
	w.sync()
	w.follows("main")
	w.clean()
}

// Two sandboxes, and the user, work at the same time.
func TestAtTheSameTime(t *testing.T) {
	w := newWorld(t, 2)
	w.must("git branch side0")
	w.at(1, "git branch side1")
	end := time.Now().Add(4 * time.Second)
	var all sync.WaitGroup
	commits, syncs, busy := 0, [2]int{}, [2]int{}
	all.Go(func() {
		for time.Now().Before(end) {
			if r := shell(w.repo, nil, "echo $$ $(date +%N) >h; git add h && git commit -qm h"); r.err == nil {
				commits++
			}
		}
	})
	for n := range w.boxes {
		all.Go(func() {
			for k := []string{"0", "1"}[n]; time.Now().Before(end); {
				w.at(n, "git update-ref refs/heads/side"+k+" $(git commit-tree -p refs/heads/side"+k+" -m s HEAD^{tree})")
				_, err := w.boxes[n].pair.Sync(t.Context())
				switch {
				case errors.Is(err, ErrBusy):
					busy[n]++
				case err != nil:
					t.Errorf("%d: %v", n, err)
					return
				default:
					syncs[n]++
				}
			}
		})
	}
	all.Wait()
	for _, n := range []int{0, 1, 0, 1} {
		w.syncAt(n)
	}
	t.Logf("%d commits of the user, %v syncs, %v busy", commits, syncs, busy)
	w.equal(w.host("git log --format=%s main | grep -c ^h"), strconv.Itoa(commits))
	w.follows("main", "side0", "side1")
	w.equal(w.at(1, "git rev-parse main side0 side1"), w.host("git rev-parse main side0 side1"))
	w.equal(w.host("git status --porcelain; git fsck --strict --no-dangling 2>&1; "+left+"; true"), "")
}

// A full disk: nothing moves, and it is taken when there is room.
func TestFullDisk(t *testing.T) {
	testenv.Root(t)
	w := makeWorld(t, 0)
	small := filepath.Join(w.root, "small")
	if err := os.Mkdir(small, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", small, "tmpfs", 0, "size=6m"); err != nil {
		testenv.Lacks(t, "a tmpfs", err.Error())
	}
	t.Cleanup(func() { _ = unix.Unmount(small, unix.MNT_DETACH) })
	if out, err := exec.Command("cp", "-a", w.repo, filepath.Join(small, "repo")).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	w.repo = filepath.Join(small, "repo")
	w.add("box", filepath.Join(w.repo, ".git"))
	before := w.rev("main")
	w.must("head -c 1500000 /dev/urandom >../../big; b=$(git hash-object -w ../../big); t=$(printf \"100644 blob $b\\tq\\n\" | git mktree); git update-ref refs/heads/big $(git commit-tree -m big $t)")
	w.try("cat /dev/zero >fill 2>/dev/null")
	r, err := w.boxes[0].pair.Sync(t.Context())
	t.Logf("%+v, %v", r, err)
	if r.Pending == "" {
		t.Error("nothing is pending")
	}
	w.host("rm fill")
	w.equal(w.rev("main"), before)
	w.equal(w.rev("big"), "")
	w.equal(w.host("git fsck --strict --no-dangling 2>&1; ls .git/*.lock 2>/dev/null; true"), "")
	w.sync()
	w.follows("main", "big")
	w.equal(w.try(left), "")
}

// A sync whose context ends leaves all or nothing, and the next one does the rest.
func TestCancelled(t *testing.T) {
	for _, at := range []string{"before objects", "objects", "journal", "locked", "refs", "index", "base saved"} {
		t.Run(at, func(t *testing.T) {
			w := newWorld(t, 1)
			w.must(work)
			want := w.in(lookScript)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w.boxes[0].pair.at = func(name string) {
				if name == at {
					cancel()
				}
			}
			if r, err := w.boxes[0].pair.Sync(ctx); err == nil && !r.Moved {
				t.Errorf("Sync: got r %+v; want err != nil or r.Moved", r)
			}
			if out := w.try("ls -d .git/*.lock .git/index.* 2>/dev/null"); out != "" {
				t.Errorf("%s is left", out)
			}
			w.sync()
			w.equal(w.try(lookScript), want)
			w.equal(w.in(lookScript), want)
			w.equal(w.try(left), "")
		})
	}
}
