package gvisor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
)

// A cli runs commands of wolffia on a state directory of its own.
type cli struct {
	testing.TB
	dir, codebase string
}

func newCLI(t testing.TB) *cli {
	t.Helper()
	return newCLIAt(t, shimtest.PublicDir(t))
}

func newCLIAt(t testing.TB, dir string) *cli {
	t.Helper()
	c := &cli{t, dir, filepath.Join(dir, "codebase")}
	if err := os.Mkdir(c.codebase, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, id := range strings.Fields(c.run("ls", "-q")) {
			c.run("rm", "-f", id)
		}
	})
	return c
}

// try runs a command, and returns what it prints.
func (c *cli) try(args ...string) (string, error) {
	c.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(testbin.Dir(c), "wolffia"), args...)
	cmd.Dir, cmd.Env = c.codebase, append(os.Environ(), "WOLFFIA_STATE_DIR="+filepath.Join(c.dir, "state"))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("wolffia %q: %w: %s", args, err, errs.String())
	}
	return out.String(), nil
}

func (c *cli) run(args ...string) string {
	c.Helper()
	out, err := c.try(args...)
	if err != nil {
		c.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// in runs a script in the session s of a sandbox.
func (c *cli) in(box, script string) string {
	c.Helper()
	return c.run("exec", "--session", "s", "--timeout", "40s", box, "--", script)
}

func (c *cli) is(box, script, want string) {
	c.Helper()
	if got := c.in(box, script); got != want {
		c.Errorf("%s: %s: got %q; want %q", box, script, got, want)
	}
}

// fails runs a command that has to fail with a text.
func (c *cli) fails(want string, args ...string) {
	c.Helper()
	if out, err := c.try(args...); err == nil || !strings.Contains(err.Error(), want) {
		c.Errorf("wolffia %q: got %q, %v; want an error with %q", args, out, err, want)
	}
}

// server counts how often it was asked, and serves until its sandbox ends.
const server = `
import http.server, os
class H(http.server.BaseHTTPRequestHandler):
    hits = 0
    def do_GET(self):
        H.hits += 1
        self.send_response(200); self.end_headers(); self.wfile.write(b"hit %d" % H.hits)
    def log_message(self, *a): pass
s = http.server.HTTPServer(("127.0.0.1", 3000), H)
open("/tmp/up", "w").close()
s.serve_forever()
`

const ask = `python3 -ISc 'import urllib.request as u; print(u.urlopen("http://127.0.0.1:3000").read().decode())'`

// startServer starts server in a session, and returns when it listens.
func (c *cli) startServer(box string) {
	c.Helper()
	c.in(box, "cat >/tmp/server.py <<'END'"+server+"END\npython3 -IS /tmp/server.py & until [ -e /tmp/up ]; do sleep 0.05; done")
}

// Five forks of a live sandbox have its shell with its variables, its program with its data, and its server; none of the
// six sees what another does, and the parent does not notice.
func TestForksWithMemory(t *testing.T) {
	testenv.Both(t)
	need(t)
	for _, cow := range []bool{true, false} {
		t.Run(fmt.Sprintf("cow=%t", cow), func(t *testing.T) {
			c := newCLI(t)
			args := []string{"create", "--runtime", "gvisor", "--name", "box"}
			if cow {
				args = append(args, "--cow")
			}
			id := c.run(args...)
			c.startServer("box")
			c.is("box", ask, "hit 1")
			c.in("box", `X=5; cd /tmp; echo mine >/tmp/own; [ -w "$OLDPWD" ] && echo parent >"$OLDPWD/shared"`)
			c.is("box", ask, "hit 2")
			shell := c.in("box", "echo $$")
			forks := strings.Fields(c.run("fork", "--memory", "-n", "5", "--name", "try", "box"))
			if len(forks) != 5 {
				t.Fatalf("fork: got %q; want 5 ids", forks)
			}
			for i, id := range forks {
				c.is(id, `echo "$X $PWD $(cat own) $$ $(hostname)"`, fmt.Sprintf("5 /tmp mine %s try-%d", shell, i+1))
				c.is(id, ask, "hit 3")
				c.in(id, fmt.Sprintf("X=%d; echo %d >own; cd - >/dev/null; echo %d >shared; cd - >/dev/null", 100+i, i, i))
			}
			for i, id := range forks {
				c.is(id, "echo $X $(cat own)", fmt.Sprintf("%d %d", 100+i, i))
				want := fmt.Sprint(i)
				if !cow {
					want = "4" // it is the host's
				}
				c.is(id, "cat $OLDPWD/shared", want)
			}
			c.is("box", ask, "hit 3")
			want := "5 parent mine"
			if !cow {
				want = "5 4 mine"
			}
			c.is("box", "echo $X $(cat $OLDPWD/shared) $(cat own)", want)
			if n := c.run("snapshot", "ls", "box"); strings.Contains(n, "fork-") {
				t.Errorf("forks leave %s", n)
			}
			list, err := os.ReadDir(filepath.Join(c.dir, "state/sandboxes", id, "cow/snapshots"))
			if err != nil || len(list) != 0 {
				t.Errorf("forks leave %v, %v", list, err)
			}
		})
	}
}

// A snapshot brings back all of a stopped sandbox, also twice, and also if the host has edited files meanwhile. What was
// open and is removed is named, the memory stays, and a stop gives it up.
func TestSnapshotWithMemory(t *testing.T) {
	testenv.Both(t)
	need(t)
	c := newCLI(t)
	id := c.run("create", "--runtime", "gvisor", "--name", "box")
	c.startServer("box")
	c.is("box", ask, "hit 1")
	host := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(c.codebase, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c.in("box", `X=5; echo one >open; echo two >edited; echo three >gone; exec 5<open 6<edited 7<gone; rm gone; sleep 1000 | cat | cat &
echo here >/tmp/t; echo shm >/dev/shm/s; (sleep 3; echo over >/tmp/timer) & true`)
	c.run("snapshot", "create", "--memory", "box", "one")
	c.fails("already", "snapshot", "create", "--memory", "box", "one")
	if list := c.run("snapshot", "ls", "box"); !strings.Contains(list, "yes") {
		t.Errorf("snapshot ls: %s", list)
	}
	c.is("box", "X=6; echo $X", "6")
	c.fails("wolffia stop "+id, "snapshot", "restore", "box", "one")
	for range 2 {
		c.run("stop", "box")
		c.run("snapshot", "restore", "box", "one")
		host("edited", "by the host\n")
		c.run("start", "box")
		c.is("box", `echo $X $(cat /tmp/t /dev/shm/s) $(jobs | grep -c "Running *sleep 1000 | cat | cat")`, "5 here shm 1")
		c.is("box", "cat <&5 <&7; until [ -e /tmp/timer ]; do sleep 0.1; done; cat /tmp/timer edited", "three\nover\nby the host")
		c.is("box", ask, "hit 2")
	}
	if err := os.Rename(filepath.Join(c.codebase, "open"), filepath.Join(c.codebase, "away")); err != nil {
		t.Fatal(err)
	}
	c.run("stop", "box")
	c.run("snapshot", "restore", "box", "one")
	c.fails(filepath.Join(c.codebase, "open"), "start", "box")
	c.fails("wolffia stop "+id+" gives its kept memory up", "start", "box")
	host("open", "new\n")
	c.run("start", "box")
	c.is("box", "cat <&5; echo $X", "new\n5")

	c.run("stop", "box")
	c.run("snapshot", "restore", "box", "one")
	c.run("stop", "box") // gives it up
	c.run("start", "box")
	c.is("box", "echo $X.", ".")
	memory := filepath.Join(c.dir, "state/sandboxes", id, "cow/snapshots/one/memory")
	st, err := os.Stat(memory)
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%s: got %v, %v; want mode 0700", memory, st, err)
	}
	// Damaged in one place after the other, it is refused, in time.
	for _, name := range []string{"pages_meta.img", "checkpoint.img", "config.json"} {
		c.run("stop", "box")
		file := filepath.Join(memory, name)
		if err := errors.Join(os.Chmod(file, 0o600), os.Truncate(file, 100)); err != nil {
			t.Fatal(err)
		}
		c.run("snapshot", "restore", "box", "one")
		c.fails("", "start", "box")
		c.run("stop", "box")
		c.run("start", "box")
	}
	c.run("snapshot", "rm", "box", "one")
	if _, err := os.Stat(memory); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after snapshot rm: %v", err)
	}
}

// A sandbox that hibernates has no process and all of its memory, and the next command brings it back.
func TestHibernate(t *testing.T) {
	testenv.Both(t)
	need(t)
	c := newCLI(t)
	id := c.run("create", "--runtime", "gvisor", "--name", "box", "--cow")
	c.startServer("box")
	c.in("box", "X=5; echo mine >own")
	for hit := range 2 {
		c.is("box", ask, fmt.Sprintf("hit %d", hit+1))
		c.run("pause", "--hibernate", "box")
		if list := c.run("ls"); !strings.Contains(list, "hibernated") {
			t.Errorf("ls: %s", list)
		}
		if left := partsOf(t, id); len(left) > 0 {
			t.Errorf("processes of one that hibernates: %v", left)
		}
		c.is("box", "echo $X $(cat own)", "5 mine")
	}
	if _, err := os.Stat(filepath.Join(c.dir, "state/sandboxes", id, "run/memory")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the memory of one that runs: %v", err)
	}
	c.run("pause", "--hibernate", "box")
	c.run("pause", "--hibernate", "box") // again is fine
	c.fails("hibernates: wolffia start", "snapshot", "create", "--memory", "box", "one")
	c.fails("there is no snapshot", "snapshot", "restore", "box", "nothing")
	c.is("box", "echo $X", "5")
	var pausing sync.WaitGroup
	for range 4 { // the first does it
		pausing.Go(func() { _, _ = c.try("pause", "--hibernate", "box") })
	}
	pausing.Wait()
	c.is("box", "echo $X", "5")
	c.run("pause", "--hibernate", "box")
	c.run("stop", "box")
	if list := c.run("inspect", "box"); strings.Contains(list, "hibernates") {
		t.Errorf("inspect of one that has given its memory up: %s", list)
	}
	c.fails("is not running", "exec", "box", "--", "true")
	c.run("start", "box")
	c.is("box", "echo $X. $(cat own)", ". mine")
}

// A fork is no sandbox of a pool, and what was one is forked and hibernates as others do.
func TestMemoryBesidePool(t *testing.T) {
	need(t)
	if os.Geteuid() == 0 {
		t.Skip("root has no pools")
	}
	c := newCLI(t)
	t.Cleanup(func() { c.run("pool", "stop", "--all") })
	c.run("pool", "start", "-n", "2", "--runtime", "gvisor")
	id := c.run("create", "--runtime", "gvisor")
	c.in(id, "X=5")
	wait.Until(t, "the pool is full again", func() bool {
		pools := c.run("pool", "ls", "--json")
		return strings.Contains(pools, `"claimed": 1`) && strings.Contains(pools, `"ready": 2`)
	})
	fork := c.run("fork", "--memory", id)
	c.is(fork, "echo $X", "5")
	c.run("pause", "--hibernate", id)
	c.is(id, "echo $X", "5")
}

// Nothing that is kept is lost but by rm -f, stop and snapshot rm.
func TestMemoryStays(t *testing.T) {
	testenv.Both(t)
	need(t)
	c := newCLI(t)
	for _, cow := range []bool{true, false} {
		args := []string{"create", "--runtime", "gvisor"}
		if cow {
			args = append(args, "--cow")
		}
		id := c.run(args...)
		c.in(id, "X=5")
		c.run("pause", "--hibernate", id)
		stays := func(why string) {
			t.Helper()
			c.fails(why, "rm", id)
			c.fails(why, "rm", "--all")
			c.run("prune", "--stopped")
		}
		stays("has kept memory")
		c.is(id, "echo $X", "5")
		c.run("snapshot", "create", "--memory", id, "one")
		c.run("stop", id)
		stays("has 1 snapshot")
		c.run("snapshot", "restore", id, "one")
		stays("has kept memory")
		c.run("start", id)
		c.is(id, "echo $X", "5")
		c.run("snapshot", "rm", id, "one")
		c.run("pause", "--hibernate", id)
		c.run("rm", "-f", id)
		if _, err := os.Stat(filepath.Join(c.dir, "state/sandboxes", id)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("after rm -f: %v", err)
		}
	}
}

// Who keeps no memory says so by name.
func TestMemoryRefused(t *testing.T) {
	testenv.Both(t)
	need(t)
	c := newCLI(t)
	for want, args := range map[string][]string{
		"--runtime gvisor only": {"--runtime", "bwrap"},
		"the host's network":    {"--runtime", "gvisor", "--network", "host"},
	} {
		id := c.run(append([]string{"create"}, args...)...)
		c.fails(want, "fork", "--memory", id)
		c.fails(want, "snapshot", "create", "--memory", id, "one")
		c.fails(want, "pause", "--hibernate", id)
		c.run("exec", id, "--", "true")
	}
	c.fails("--runtime gvisor only", "create", "--idle-timeout", "1h", "--idle-action", "hibernate")
	id := c.run("create", "--runtime", "gvisor")
	c.run("stop", id)
	c.fails("does not run", "fork", "--memory", id)
}
