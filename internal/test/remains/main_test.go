package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/testenv"
)

// asRemains has the test program be the program.
const asRemains = "WOLFFIA_TEST_REMAINS"

func TestMain(m *testing.M) {
	if os.Getenv(asRemains) != "" {
		code, left, err := run(os.Args[1], os.Args[2:], time.Second)
		fmt.Println(code, len(left), err)
		for _, l := range left {
			fmt.Println(l)
		}
		return
	}
	os.Exit(m.Run())
}

// remains runs a script, and returns what is said of it.
func remains(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", dir, "sh", "-c", script)
	cmd.Env = append(os.Environ(), asRemains+"=1")
	cmd.WaitDelay = time.Minute
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err, said.String())
	}
	return string(out)
}

func TestNothingRemains(t *testing.T) {
	for script, want := range map[string]string{
		"true":                               "0 0 <nil>\n",
		"exit 7":                             "7 0 <nil>\n",
		"kill -9 $$":                         "137 0 <nil>\n",
		"(sleep 0.1; exit 3) & exit 2":       "2 0 <nil>\n", // it ends soon
		"setsid sh -c 'sleep 0.1' & exit 0 ": "0 0 <nil>\n",
	} {
		if got := remains(t, t.TempDir(), script); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
}

// A process that has left its parent, session and environment is found, and
// ended; one that somebody else runs is not looked at, whatever its name.
func TestProcessesRemain(t *testing.T) {
	other := exec.Command("sh", "-c", "echo there; exec -a 'wolffia shim other' sleep 1000")
	other.Path = "/bin/bash"
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = other.Process.Kill(), other.Wait() }()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	pid := filepath.Join(t.TempDir(), "pid")
	got := remains(t, t.TempDir(), "mkfifo "+pid+".ready; (setsid env -i sh -c 'echo $$ >"+pid+"; : >"+pid+".ready; exec sleep 54321' >/dev/null 2>&1 &) ; read x <"+pid+".ready; exit 0")
	if !strings.HasPrefix(got, "0 1 <nil>\nprocess ") || !strings.HasSuffix(got, `: "sleep 54321"`+"\n") {
		t.Errorf("remains: got %q; want got begins with %q and got ends with %q", got, "0 1 <nil>\nprocess ", `: "sleep 54321"`+"\n")
	}
	text, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/" + strings.TrimSpace(string(text))); err == nil {
		t.Errorf("process %s lives", text)
	}
}

// Mounts in the directory remain; what is elsewhere, or was there before, is
// another user's.
func TestMountsRemain(t *testing.T) {
	if !testenv.InNamespace(t) {
		return
	}
	dir, elsewhere := t.TempDir(), t.TempDir()
	for _, d := range []string{dir + "/old", dir + "/new"} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("none", dir+"/old", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, d := range []string{dir + "/old", dir + "/new", elsewhere} {
			_ = unix.Unmount(d, 0)
		}
	}()
	got := remains(t, dir, "mount -t tmpfs none "+elsewhere+" && mount -t tmpfs none "+dir+"/new")
	if got != "0 1 <nil>\nmount "+dir+"/new\n" {
		t.Errorf("remains: got %q, want %q", got, "0 1 <nil>\nmount "+dir+"/new\n")
	}
}

// A group that is made and has nothing in it remains; one with a process is of
// a sandbox that runs.
func TestGroupsRemain(t *testing.T) {
	testenv.Root(t)
	testenv.Cgroups(t)
	parent := "/sys/fs/cgroup"
	if _, err := os.Stat(parent + "/pids"); err == nil { // version 1
		parent += "/pids"
	}
	name := func(kind string) string {
		return filepath.Join(parent, fmt.Sprintf("wolffia-%012d-%s", os.Getpid(), kind))
	}
	if err := os.Mkdir(name("old"), 0o755); err != nil {
		t.Fatal(err)
	}
	other := exec.Command("sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_, _ = other.Process.Kill(), other.Wait()
		for _, kind := range []string{"old", "new", "used"} {
			if err := unix.Rmdir(name(kind)); err != nil {
				t.Error(err)
			}
		}
	}()
	got := remains(t, t.TempDir(), fmt.Sprintf("mkdir %s %s && echo %d >%[2]s/cgroup.procs", name("new"), name("used"), other.Process.Pid))
	if got != "0 1 <nil>\ncontrol group "+name("new")+"\n" {
		t.Errorf(`remains: got %q, want %q+name("new")+%q`, got, "0 1 <nil>\ncontrol group ", "\n")
	}
}
