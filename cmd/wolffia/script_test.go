package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"wolffia/image/puller"
	"wolffia/internal/host/probe"
	"wolffia/internal/host/programs"
	"wolffia/internal/sys/userns"
	"wolffia/internal/test/dockertest"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
)

func TestMain(m *testing.M) {
	code := dockertest.Main(m)
	testbin.Remove()
	os.Exit(code)
}

// The scripts run the real program, and are what its users may rely on.
func TestScripts(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	p := scripts(t, "testdata/script")
	if testenv.Second() {
		p.Dir, p.Files = "", conditional(t, p.Dir)
	}
	testscript.Run(t, p)
}

// conditional are the scripts of a directory that differ for root.
func conditional(t *testing.T, dir string) (files []string) {
	t.Helper()
	all, err := filepath.Glob(dir + "/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("root]")) || bytes.Contains(text, []byte("cgroups]")) {
			files = append(files, file)
		}
	}
	return files
}

// The same program with another kernel.
func TestScriptsInGvisor(t *testing.T) {
	t.Parallel()
	testenv.Need(t, probe.UserNamespaces, probe.Fuse, probe.Runsc)
	testenv.Busybox(t)
	p := scripts(t, "testdata/gvisor")
	p.Cmds["save"] = func(ts *testscript.TestScript, neg bool, args []string) { saveImage(t, ts, neg, args) }
	testscript.Run(t, p)
}

// The same program in an engine.
func TestScriptsInDocker(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	testenv.Need(t, probe.UserNamespaces, probe.Fuse, probe.Docker)
	if os.Geteuid() != 0 {
		testenv.Need(t, probe.Fusermount)
	}
	busybox, p := testenv.Busybox(t), scripts(t, "testdata/docker")
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		env.Setenv("BUSYBOX", busybox)
		return setup(env)
	}
	testscript.Run(t, p)
}

// testUser is the unprivileged user of the tests.
var testUser = cmp.Or(os.Getenv("WOLFFIA_TEST_USER"), "wolffia-test")

// scripts are those in a directory.
func scripts(t *testing.T, dir string) testscript.Params {
	t.Helper()
	bin := testbin.Dir(t)
	page, err := filepath.Abs("../../docs/cow.md")
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir() // where make runsc has put it
	if err != nil {
		t.Fatal(err)
	}
	return testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			// As root, the user that is dropped to must get here.
			for _, d := range []string{filepath.Dir(env.WorkDir), env.WorkDir} {
				if err := os.Chmod(d, 0o755); err != nil {
					return err
				}
			}
			home := filepath.Join(env.WorkDir, "home")
			if err := os.Mkdir(home, 0o755); err != nil {
				return err
			}
			env.Setenv("HOME", home)
			env.Setenv("XDG_CACHE_HOME", cache)
			env.Setenv("PAGE", page)
			env.Setenv("WOLFFIA", filepath.Join(bin, "wolffia"))
			env.Setenv("BIN", bin)
			env.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			env.Setenv("PATH_OF_HOST", os.Getenv("PATH"))
			env.Setenv("WOLFFIA_STATE_DIR", filepath.Join(env.WorkDir, "state"))
			env.Setenv("TESTUSER", testUser)
			env.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
			env.Setenv("DOCKER_CONFIG", home)
			env.Setenv("DOCKER_HOST", os.Getenv("DOCKER_HOST"))
			env.Setenv("GORACE", os.Getenv("GORACE"))
			for _, who := range []string{"AUTHOR", "COMMITTER"} {
				env.Setenv("GIT_"+who+"_NAME", "tester")
				env.Setenv("GIT_"+who+"_EMAIL", "tester@example.invalid")
			}
			env.Setenv("SECRET_OF_THE_HOST", "must-not-be-seen")
			env.Defer(func() { destroyAll(t, env) })
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"await": await, "call": call, "completes": completes, "get": get, "origin": origin, "pack": pack, "until": until},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "root":
				return os.Geteuid() == 0, nil
			case "subids":
				u, err := user.Lookup(testUser)
				if err != nil {
					return false, nil
				}
				uid, err := strconv.Atoi(u.Uid)
				if err == nil {
					_, err = userns.Of(uid, uid)
				}
				return err == nil, nil
			case "rootids": // for root's own sandboxes
				_, err := userns.Of(0, 0)
				return err == nil, nil
			case "dpkg":
				_, err := os.Stat("/var/lib/dpkg/status")
				return err == nil, nil
			case "full":
				return testenv.Full(), nil
			case "cgroups":
				return probe.Check(t.Context(), probe.Cgroups).OK, nil
			}
			return false, nil
		},
	}
}

// origin starts an HTTP server on the host's loopback, which answers what it was asked for, and
// sets PORT.
func origin(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: origin")
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s of %s\n", r.Method, r.URL.Path, r.Host)
	}))
	ts.Defer(s.Close)
	ts.Setenv("PORT", strconv.Itoa(s.Listener.Addr().(*net.TCPAddr).Port))
}

// pack FILE makes a wolffia that carries its companions.
func pack(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: pack FILE")
	}
	out, wolffia := ts.MkAbs(args[0]), ts.Getenv("WOLFFIA")
	ts.Check(os.MkdirAll(filepath.Dir(out), 0o755))
	bin := filepath.Dir(wolffia)
	packed := out + ".new"
	ts.Check(programs.Pack(packed, wolffia, filepath.Join(bin, programs.Box), filepath.Join(bin, programs.Net), filepath.Join(bin, programs.Tree), filepath.Join(bin, programs.Guest), filepath.Join(bin, puller.Program), filepath.Join(bin, programs.Serve)))
	// Copied by another process: what this one has open for writing, each program that another test starts meanwhile
	// has too until it executes, and so the file would be busy (ETXTBSY of execve(2)).
	ts.Check(exec.Command("cp", packed, out).Run())
	ts.Check(os.Remove(packed))
}

// destroyAll ends what a script has left, which one that fails does.
func destroyAll(t *testing.T, env *testscript.Env) {
	state := env.Getenv("WOLFFIA_STATE_DIR")
	if _, err := os.Stat(filepath.Join(state, "pools")); err == nil {
		if out, err := exec.CommandContext(context.Background(), env.Getenv("WOLFFIA"), "--state-dir", state, "pool", "stop", "--all").CombinedOutput(); err != nil {
			t.Logf("end the pools that a script has left: %v: %s", err, out)
		}
	}
	left, err := filepath.Glob(filepath.Join(state, "sandboxes", "*"))
	if err != nil || len(left) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	for _, dir := range left {
		cmd := exec.CommandContext(ctx, env.Getenv("WOLFFIA"), "--state-dir", state, "rm", "-f", filepath.Base(dir))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Logf("destroy what a script has left: %v: %s", err, out)
		}
	}
}

// await NAME STATE waits until the sandbox is in that state, or "gone".
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await NAME STATE")
	}
	name, want := args[0], args[1]
	var state string
	if !wait.Poll(func() bool {
		cmd := exec.Command("wolffia", "ls", "--json")
		cmd.Path, cmd.Err = ts.Getenv("WOLFFIA"), nil
		cmd.Env = append(os.Environ(), "WOLFFIA_STATE_DIR="+ts.Getenv("WOLFFIA_STATE_DIR"))
		out, err := cmd.Output()
		ts.Check(err)
		var all []listing
		ts.Check(json.Unmarshal(out, &all))
		state = "gone"
		for _, l := range all {
			if l.Name == name {
				state = string(l.State)
			}
		}
		return state == want
	}) {
		ts.Fatalf("%s is %s, want %s", name, state, want)
	}
}

// completes REGEXP WORD... completes the words as a shell does, again until what is printed matches: completion is
// silent about a sandbox that does not answer within completeLimit, as on a busy machine.
func completes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: completes REGEXP WORD...")
	}
	until(ts, false, append([]string{args[0], "wolffia", "__complete"}, args[1:]...))
}

// until REGEXP PROGRAM ARGUMENT... runs the program again until its output matches; with ! until it succeeds with output that
// does not match.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: [!] until REGEXP PROGRAM ARGUMENT...")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	if !wait.Poll(func() bool {
		err := ts.Exec(args[1], args[2:]...)
		if neg {
			return err == nil && !want.MatchString(ts.ReadFile("stdout"))
		}
		return want.MatchString(ts.ReadFile("stdout"))
	}) {
		ts.Fatalf("the output of %q after %v is %q: want %q to match: %v", args[1:], wait.Limit, ts.ReadFile("stdout"), args[0], !neg)
	}
}
