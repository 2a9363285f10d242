package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
)

// refusedInside runs commands in a sandbox, each of which must fail for that reason.
func refusedInside(t *testing.T, rt *local.Runtime, id, why string, commands ...string) {
	t.Helper()
	for _, command := range commands {
		if out, code := sh(t, rt, id, "("+command+") 2>&1"); code == 0 || !strings.Contains(out, why) {
			t.Errorf("%s: %d, %q, want %q", command, code, out, why)
		}
	}
}

func inside(t *testing.T, rt *local.Runtime, id, command, want string) {
	t.Helper()
	if out, code := sh(t, rt, id, command); code != 0 || out != want {
		t.Errorf("%s: %d, %q, want %q", command, code, out, want)
	}
}

func restart(t *testing.T, rt *local.Runtime, id string) {
	t.Helper()
	if err := rt.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := rt.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

// Acceptance test 18 of copy-on-write: --disk stops copies, whiteouts and new files, also after a restart. What is discarded,
// or applied and then folded away by a start, gives room again.
func TestCopiedQuotaAfterRestart(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	for i := range 3 {
		write(t, codebase, fmt.Sprint("big", i), strings.Repeat("x", 400<<10))
	}
	for i := range 100 {
		write(t, codebase, fmt.Sprint("many", i), "x")
	}
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{
		CodebasePath: codebase, CopyOnWrite: true, Permissions: everything(perm.Write), Resources: runtime.Resources{Disk: 1 << 20},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := s.ID
	if err := rt.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	const quota = "quota exceeded"
	refused := func() {
		t.Helper()
		refusedInside(t, rt, id, quota, "/bin/echo y >> big2", "rm many*", "mkdir d", ": > new", "ln -s a link", "mv big2 moved", "head -c 300000 /dev/zero >> big1")
	}
	inside(t, rt, id, "echo y >> big0; echo y >> big1", "")
	refusedInside(t, rt, id, quota, "i=0; while /bin/echo > new$i; do i=$((i+1)); done; exit 1")
	refused()
	restart(t, rt, id)
	refused()
	restart(t, rt, id)
	refused()

	result, err := rt.Apply(t.Context(), id, runtime.ApplyOptions{Paths: []string{"big0"}})
	if err != nil || len(result.Applied) != 1 {
		t.Fatalf("apply at the limit: %+v, %v", result, err)
	}
	restart(t, rt, id)
	inside(t, rt, id, "echo y >> big2; tail -n1 big0 big2 | grep -c y", "2\n")
	refusedInside(t, rt, id, quota, "/bin/echo y >> big0")
	if n, err := rt.Discard(t.Context(), id, []string{"big1"}); n != 1 || err != nil {
		t.Fatalf("discard at the limit: %d, %v", n, err)
	}
	inside(t, rt, id, "rm new1 new2; echo y >> big0; tail -c2 big1", "xx")
	refusedInside(t, rt, id, quota, "/bin/echo y >> big1")
	if err := rt.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Discard(t.Context(), id, nil); err != nil {
		t.Fatal(err)
	}
	if err := rt.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	inside(t, rt, id, "echo y >> big0; echo y >> big1; rm many1*; ls | wc -l", "92\n")
}

// Acceptance test 20 of copy-on-write: with a full state directory programs get ENOSPC, and changes are listed, applied and
// discarded all the same, while the sandbox runs and when it does not.
func TestCopiedStateFull(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	disk := testenv.OnSmallDisk(t, "4m")
	if disk == nil {
		return
	}
	codebase := filepath.Join(t.TempDir(), "codebase")
	for d := filepath.Dir(codebase); d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(codebase, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(codebase, 0o777); err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		write(t, codebase, fmt.Sprint("f", i), "host\n")
	}
	write(t, codebase, "untouched", "host\n")
	rt, err := local.New(&local.Options{StateDir: filepath.Join(disk.Dir, "state"), Binary: filepath.Join(testbin.Dir(t), "wolffia")}, bwrap.Backend())
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	id := copiedSandbox(t, rt, codebase)
	inside(t, rt, id, "for i in $(seq 0 19); do echo inside > f$i; rm f$((i+20)); mv f$((i+40)) moved$i; done; mkdir new; echo n > new/n", "")
	for _, runs := range []bool{true, false} {
		if !runs {
			if err := rt.Stop(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		empty := disk.Fill()
		if runs {
			refusedInside(t, rt, id, "No space left", "/bin/echo x >> untouched", "/bin/echo x > more")
			inside(t, rt, id, "cat untouched", "host\n")
		}
		from, to := 0, 5
		if !runs {
			from, to = 5, 10
		}
		var applied, discarded []string
		for i := from; i < to; i++ {
			applied = append(applied, fmt.Sprint("f", i), fmt.Sprint("f", i+20), fmt.Sprint("moved", i))
			discarded = append(discarded, fmt.Sprint("f", i+10), fmt.Sprint("f", i+30), fmt.Sprint("moved", i+10))
		}
		before, err := rt.Changes(t.Context(), id, runtime.ChangesOptions{})
		if err != nil {
			t.Fatalf("changes (runs: %v): %v", runs, err)
		}
		if result, err := rt.Apply(t.Context(), id, runtime.ApplyOptions{Paths: applied}); err != nil || len(result.Applied) != len(applied) {
			t.Fatalf("apply (runs: %v): %+v, %v", runs, result, err)
		}
		if n, err := rt.Discard(t.Context(), id, discarded); err != nil || n != len(discarded) {
			t.Fatalf("discard (runs: %v): %d, %v", runs, n, err)
		}
		after, err := rt.Changes(t.Context(), id, runtime.ChangesOptions{})
		if err != nil || len(after) != len(before)-len(applied)-len(discarded) {
			t.Fatalf("%d changes of %d are left (runs: %v): %v", len(after), len(before), runs, err)
		}
		for i := from; i < to; i++ {
			if a, b, c := shimtest.Content(t, codebase, fmt.Sprint("f", i)), shimtest.Content(t, codebase, fmt.Sprint("f", i+20)), shimtest.Content(t, codebase, fmt.Sprint("moved", i)); a != "inside\n" || b != "nothing" || c != "host\n" {
				t.Errorf("the host has %q, %q, %q", a, b, c)
			}
		}
		if runs {
			inside(t, rt, id, "cat f10 f30 untouched; ls moved10 2>&1 || true", "host\nhost\nhost\nls: cannot access 'moved10': No such file or directory\n")
		}
		empty()
	}
	if err := rt.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	inside(t, rt, id, "cat f0 f5 f10 f15 new/n; echo x > more; cat more", "inside\ninside\nhost\nhost\nn\nx\n")
}
