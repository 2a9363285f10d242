package userns_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/sys/userns"
	"wolffia/internal/test/testenv"
)

// ids returns the IDs of this process's user.
func ids(t *testing.T) *userns.IDs {
	t.Helper()
	testenv.Both(t)
	testenv.Need(t, probe.UserNamespaces)
	testenv.Tools(t, "setpriv", "nsenter", "unshare", "mount")
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 {
		u, err := user.Lookup(cmp.Or(os.Getenv("WOLFFIA_TEST_USER"), "wolffia-test"))
		if err != nil {
			t.Skip(err)
		}
		uid, _ = strconv.Atoi(u.Uid)
		gid, _ = strconv.Atoi(u.Gid)
	}
	ids, err := userns.Of(uid, gid)
	if err == nil {
		err = ids.Check()
	}
	if err != nil {
		t.Skip(err)
	}
	return &ids
}

// run runs a shell in the namespace, and returns what it has written to descriptor 3.
func run(t *testing.T, ids *userns.IDs, script string, args ...string) (string, error) {
	t.Helper()
	sh, err := os.Open("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	defer sh.Close()
	out, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	err = ids.Run(t.Context(), sh, append([]string{"sh", "-c", script, "sh"}, args...), out)
	b, _ := os.ReadFile(out.Name())
	return string(b), err
}

// A program is root of all the ids, may become each of them, and has a mount namespace.
func TestRun(t *testing.T) {
	ids := ids(t)
	got, err := run(t, ids, `exec >&3; cat /proc/self/uid_map /proc/self/gid_map /proc/self/setgroups; id -u; id -g; setpriv --reuid 33 --regid 65534 --groups 7 sh -c 'id -u; id -g; id -G'; mount -t tmpfs x /mnt && echo $1`, "arg")
	want := fmt.Sprintf("0 %d 1 1 %d %d 0 %d 1 1 %d %[3]d allow 0 0 33 65534 65534 7 arg", ids.UID, ids.SubUID, userns.Count, ids.GID, ids.SubGID)
	if is := strings.Join(strings.Fields(got), " "); err != nil || is != want {
		t.Errorf("%v: %s, want %s", err, is, want)
	}
	if _, err := run(t, ids, "echo why >&2; exit 3"); err == nil || err.Error() != "why" {
		t.Errorf("a program that fails: %v", err)
	}
	if _, err := run(t, ids, "exit 3"); err == nil || err.Error() != "exit status 3" {
		t.Errorf("a program that fails silently: %v", err)
	}
}

// Ids of another user are refused, and the program does not run.
func TestForeignIDs(t *testing.T) {
	ids := *ids(t)
	if os.Geteuid() == 0 {
		t.Skip("root may map all")
	}
	ids.SubUID += 10 * userns.Count
	if out, err := run(t, &ids, "echo ran >&3"); err == nil || !strings.Contains(err.Error(), "not allowed") || out != "" {
		t.Errorf("%q, %v", out, err)
	}
}

// The inner namespace has the ids but one, and is the last that can be made.
func TestInner(t *testing.T) {
	ids := ids(t)
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	out, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := ids.Run(t.Context(), exe, []string{"userns.test", "-test.run=^TestInnerPart$", inner}, out); err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(out.Name())
	lines := strings.Split(string(b), "\n")
	want := fmt.Sprintf("0 0 1 1 1 %d", userns.Withheld-1)
	if len(lines) != 4 || lines[0] != want || lines[1] != want || !strings.Contains(lines[2], "space") {
		t.Errorf("%q, want twice %q and that no further namespace can be made", lines, want)
	}
}

const inner = "a part of TestInner"

// TestInnerPart runs in a namespace of several users.
func TestInnerPart(t *testing.T) {
	if len(os.Args) < 3 || os.Args[2] != inner {
		t.Skip("it is a part of TestInner")
	}
	ns, err := userns.Inner()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	cmd := exec.CommandContext(t.Context(), "nsenter", "--user=/proc/self/fd/3", "sh", "-c", "echo $(cat /proc/self/uid_map); echo $(cat /proc/self/gid_map); unshare -U true 2>&1")
	cmd.ExtraFiles = []*os.File{ns}
	cmd.Stdout = os.NewFile(3, "out")
	_ = cmd.Run() // unshare fails
}
