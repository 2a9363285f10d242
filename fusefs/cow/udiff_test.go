package cow

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/runtime"
)

func (m *model) diff(paths ...string) string {
	m.t.Helper()
	var b bytes.Buffer
	m.must(m.layers().Diff(runtime.DiffOptions{Paths: paths}, &b))
	return b.String()
}

// git runs git in a directory, without the user's configuration.
func git(t testing.TB, dir, input string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(input)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// files returns those of a view that are no directories, with the mode that git has and without
// times.
func files(view map[string]string) map[string]string {
	all := map[string]string{}
	for p, what := range view {
		switch f := strings.SplitN(what, " ", 4); f[0] {
		case "file":
			mode := "644"
			if f[1][0]&1 != 0 {
				mode = "755"
			}
			all[p] = mode + f[3]
		case "link":
			all[p] = what
		}
	}
	return all
}

// TestGitAppliesTheDiff: git makes of the host's files what the sandbox sees.
func TestGitAppliesTheDiff(t *testing.T) {
	for seed := range rounds(t, 15, 500) {
		m, _ := newWorld(t, seed, 2, 20)
		want := files(m.view())
		diff := m.diff()
		if out, err := git(t, m.host(""), diff, "apply", "--whitespace=nowarn"); err != nil && diff != "" {
			if strings.Contains(out, "Directory not empty") { // of empty directories git knows nothing
				continue
			}
			t.Fatalf("seed %d: %v: %s\n%s", seed, err, out, diff)
		}
		if left := differences(want, files(m.hostView())); len(left) > 0 {
			t.Fatalf("seed %d: git made\n%s\nof\n%s", seed, strings.Join(left, "\n"), diff)
		}
	}
}

func TestDiff(t *testing.T) {
	m := newModel(t)
	m.must(os.WriteFile(m.host("text"), []byte("1\n2\n3\n4\n5\n6\n7\n8\n9"), 0o644))
	m.must(os.WriteFile(m.host("binary"), []byte("a\x00"), 0o644))
	m.must(os.WriteFile(m.host("run"), []byte("x\n"), 0o644))
	m.must(os.WriteFile(m.host("gone \t"), []byte("x\n"), 0o644))
	m.must(os.Symlink("a", m.host("link")))
	m.must(os.Mkdir(m.host("dir"), 0o755))
	m.must(os.WriteFile(m.host("dir/file"), []byte("x\n"), 0o644))
	m.must(os.WriteFile(m.host("dir/other"), []byte("x\n"), 0o644))
	m.write("text", "1\n2\nthree\n4\n5\n6\n7\n8\n9\n", 0)
	m.write("binary", "b\x00", 0)
	m.chmod("run", 0o755)
	m.remove("gone \t")
	m.remove("link")
	m.write("link", "now a file", 0o600)
	m.rename("dir", "a dir")
	m.write("a dir/file", "y\n", 0)
	m.mkdir("new")
	m.write("new/\x1b[31m\xff", "z\n", 0o644)
	const want = `diff --git a/dir/other b/a dir/other
similarity index 100%
rename from dir/other
rename to a dir/other
diff --git a/dir/file b/a dir/file
rename from dir/file
rename to a dir/file
--- a/dir/file
+++ b/a dir/file` + "\t" + `
@@ -1 +1 @@
-x
+y
diff --git a/binary b/binary
Binary files a/binary and b/binary differ
diff --git "a/gone \t" "b/gone \t"
deleted file mode 100644
--- "a/gone \t"
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/link b/link
deleted file mode 120000
--- a/link
+++ /dev/null
@@ -1 +0,0 @@
-a
\ No newline at end of file
diff --git a/link b/link
new file mode 100644
--- /dev/null
+++ b/link
@@ -0,0 +1 @@
+now a file
\ No newline at end of file
diff --git "a/new/\033[31m\377" "b/new/\033[31m\377"
new file mode 100644
--- /dev/null
+++ "b/new/\033[31m\377"
@@ -0,0 +1 @@
+z
diff --git a/run b/run
old mode 100644
new mode 100755
diff --git a/text b/text
--- a/text
+++ b/text
@@ -1,9 +1,9 @@
 1
 2
-3
+three
 4
 5
 6
 7
 8
-9
\ No newline at end of file
+9
`
	if got := m.diff(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	changes, err := m.layers().Changes(runtime.ChangesOptions{Lines: true})
	m.must(err)
	for _, c := range changes {
		if c.Path == "text" && (c.Added != 2 || c.Deleted != 2) || c.Path == "binary" && !c.Binary {
			t.Errorf(`got c %+v; want (c.Path != "text" or (c.Added == 2 and c.Deleted == 2)) and (c.Path != "binary" or c.Binary)`, c)
		}
	}
	if got, want := m.diff("run"), "diff --git a/run b/run\nold mode 100644\nnew mode 100755\n"; got != want {
		t.Errorf("of one path: %q", got)
	}
}

// TestHiddenIsNotShown: nothing of what the rules hide now is in a diff, by the old name or by the
// new.
func TestHiddenIsNotShown(t *testing.T) {
	m := newModel(t)
	for _, p := range []string{"a", "b"} {
		m.must(os.Mkdir(m.host(p), 0o755))
	}
	for _, p := range []string{"a/file", "b/secret", "b/open"} {
		m.must(os.WriteFile(m.host(p), []byte("SECRET "+p+"\n"), fs.FileMode(0o644)))
	}
	m.rename("a", "moved")
	m.write("moved/file", "mine\n", 0)
	m.write("b/secret", "mine\n", 0)
	m.remove("b/open")
	m.setRules("/a/=none", "/b/=none", "/**=write")
	if diff := m.diff(); strings.Contains(diff, "SECRET") {
		t.Errorf("the diff shows\n%s", diff)
	}
	before := m.hostView()
	changes, err := m.layers().Changes(runtime.ChangesOptions{Lines: true})
	m.must(err)
	for _, c := range changes {
		if c.Denied == "" || c.OldMode != 0 || c.Deleted != 0 {
			t.Errorf(`got c %+v; want c.Denied != "" and c.OldMode == 0 and c.Deleted == 0`, c)
		}
	}
	for _, force := range []bool{false, true} {
		if _, err := m.apply(runtime.ApplyOptions{Force: force}); runtime.Class(err) != runtime.ErrDenied {
			t.Errorf("apply: %v", err)
		}
	}
	if diff := differences(before, m.hostView()); len(diff) > 0 {
		t.Errorf("applied: %v", diff)
	}
}
