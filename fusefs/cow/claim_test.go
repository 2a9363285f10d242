package cow

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

// TestClaim: of several claimants that are about to make a part of a git directory one continues;
// other names and directories are free.
func TestClaim(t *testing.T) {
	top := t.TempDir()
	for _, name := range []string{"/a", "/b"} {
		if err := os.Mkdir(top+name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	a, b := openTestDir(t, top+"/a"), openTestDir(t, top+"/b")
	release, err := Claim(a, "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	for _, again := range []struct {
		dir  int
		name string
		want error
	}{{a, "HEAD", unix.EBUSY}, {a, "refs", unix.EBUSY}, {a, "file", nil}, {b, "HEAD", nil}} {
		free, err := Claim(again.dir, again.name)
		if err != again.want {
			t.Errorf("%s while HEAD is claimed: %v, want %v", again.name, err, again.want)
		}
		free()
	}
	release()
	if release, err = Claim(a, "refs"); err != nil {
		t.Error(err)
	}
	release()
}

// TestClaimIsReleased: a claim ends with its release, also while this process starts others, which
// have copies of its descriptors until they execute their programs.
func TestClaimIsReleased(t *testing.T) {
	dir := openTestDir(t, t.TempDir())
	started := make(chan error)
	stop := make(chan struct{})
	go func() {
		defer close(started)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := exec.Command("/bin/true").Run(); err != nil {
				started <- err
				return
			}
		}
	}()
	for i := range 20000 {
		release, err := Claim(dir, "HEAD")
		if err != nil {
			t.Errorf("claim %d: %v", i, err)
			break
		}
		release()
	}
	close(stop)
	if err := <-started; err != nil {
		t.Error(err)
	}
}

// TestApplyWaitsForNoClaim: what would be a part of a git directory beside what another sandbox is
// making is left out, and applied later; nothing else is.
func TestApplyWaitsForNoClaim(t *testing.T) {
	m := newModel(t)
	for _, name := range []string{"x", "x/objects", "y"} {
		m.must(os.Mkdir(m.host(name), 0o755))
	}
	m.must(os.WriteFile(m.host("y/HEAD"), nil, 0o644))
	m.mkdir("x/refs")
	m.remove("y/HEAD")
	m.write("y/reftable", "", 0o644)
	m.write("x/file", "", 0o644)
	var releases []func()
	for _, name := range []string{"x", "y"} {
		release, err := Claim(openTestDir(t, m.host(name)), "HEAD")
		m.must(err)
		releases = append(releases, release)
	}
	result, err := m.apply(runtime.ApplyOptions{})
	if !errors.Is(err, runtime.ErrConflict) || len(result.Left) != 3 || len(result.Applied) != 1 {
		t.Errorf("while it is claimed: %+v, %v", result, err)
	}
	if lstat(m.host("x/refs")) != nil || lstat(m.host("y/reftable")) != nil || lstat(m.host("y/HEAD")) == nil || lstat(m.host("x/file")) == nil {
		t.Error("the host has something else")
	}
	for _, release := range releases {
		release()
	}
	_, err = m.apply(runtime.ApplyOptions{})
	m.must(err)
	m.clean()
}

// TestPutBackMakesNoRepository: what an apply that was killed had taken away does not go back if
// another sandbox has made the rest of a git directory meanwhile.
func TestPutBackMakesNoRepository(t *testing.T) {
	m := newModel(t)
	m.must(os.Mkdir(m.host("x"), 0o755))
	m.must(os.Mkdir(m.host("x/objects"), 0o755))
	m.must(os.WriteFile(m.host("x/HEAD"), []byte("host\n"), 0o644))
	m.remove("x/HEAD")
	l := m.layers()
	func() {
		defer func() { _ = recover() }()
		l.test = func(name string) {
			if name == "apply: file taken away" {
				panic("killed")
			}
		}
		_, _ = l.Apply(runtime.ApplyOptions{})
	}()
	m.must(os.Mkdir(m.host("x/refs"), 0o755)) // the other sandbox
	left, err := os.ReadDir(m.host("x"))
	m.must(err)
	for _, e := range left {
		if len(e.Name()) > len(TempPrefix) { // and the host has changed the file
			m.must(os.WriteFile(m.host("x/"+e.Name()), []byte("changed\n"), 0o644))
		}
	}
	m.must(m.layers().Compact())
	if lstat(m.host("x/HEAD")) != nil {
		t.Error("the host's directory is a git repository")
	}
	if left, err = os.ReadDir(m.host("x")); err != nil || len(left) != 3 {
		t.Errorf("the host's file is lost: %v, %v", left, err)
	}
}
