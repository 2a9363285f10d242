package fusefs

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// New rules bind before SetRules returns: for names and listings that the
// kernel has cached, for open files, mapped pages and working directories.
func TestNewRulesBindAtOnce(t *testing.T) { newRulesBind(t, setup{Timeout: time.Hour}) }

// Without epochs as well.
func TestNewRulesBindOnOldKernels(t *testing.T) {
	newRulesBind(t, setup{Timeout: time.Hour, Old: true})
}

func newRulesBind(t *testing.T, s setup) {
	mountedBoth(t, setup{
		Timeout: s.Timeout, Old: s.Old,
		Parse: []string{"**=write", "hidden=none"},
		Host: func(t *testing.T, dir string) {
			for _, name := range []string{"d/file", "d/hidden", "hidden", "top", "a/b/c"} {
				write(t, dir, name, "content")
			}
		},
	}, func(t *testing.T, c *client) {
		absent, denied, whole := syscall.ENOENT.Error(), syscall.EACCES.Error(), "7:content"
		check := func(when, name, want string) {
			t.Helper()
			if got := content(c.at(name)); got != want {
				t.Errorf("%s, %s: %q, want %q", when, name, got, want)
			}
		}
		walk(t, c.dir)
		walk(t, c.dir)
		check("first", "d/hidden", absent)
		check("first", "hidden", absent)
		check("first", "d", "<nil> file")
		check("first", ".", "<nil> a d top")
		check("first", "a/b/c", whole)

		file, err := os.OpenFile(c.at("d/file"), os.O_RDWR, 0)
		ok(t, "open", err)
		defer file.Close()
		lost, err := os.OpenFile(c.at("a/b/lost"), os.O_RDWR|os.O_CREATE, 0o644)
		ok(t, "create", err)
		defer lost.Close()
		ok(t, "unlink", os.Remove(c.at("a/b/lost")))
		_, err = lost.WriteString("lost")
		ok(t, "write", err)
		page, err := unix.Mmap(int(file.Fd()), 0, 7, unix.PROT_READ, unix.MAP_SHARED)
		ok(t, "mmap", err)
		defer unix.Munmap(page)
		if string(page) != "content" {
			t.Fatalf("mapped %q", page)
		}
		here, err := os.Open(c.at("a/b"))
		ok(t, "open", err)
		defer here.Close()

		c.setRules(t, "**=write", "d/file=none", "/a/=none", "top=read")

		check("hidden now", "d/file", absent)
		check("shown now", "d/hidden", whole)
		check("shown now", "hidden", whole)
		check("listing", "d", "<nil> hidden")
		check("listing of the root", ".", "<nil> d hidden top")
		check("read", "top", whole)
		wantErrno(t, "write top", os.WriteFile(c.at("top"), nil, 0o644), syscall.EACCES)
		buf := make([]byte, 10)
		_, err = file.ReadAt(buf, 0)
		wantErrno(t, "read what was open", err, syscall.ENOENT)
		_, err = file.WriteAt(buf, 0)
		wantErrno(t, "write what was open", err, syscall.ENOENT)
		_, err = lost.ReadAt(buf[:4], 0)
		wantErrno(t, "read what has no name", err, syscall.ENOENT)
		if !faults(page) {
			t.Error("a mapped page can still be read")
		}
		var st unix.Stat_t
		wantErrno(t, "use the open directory", unix.Fstatat(int(here.Fd()), "c", &st, 0), syscall.ENOENT)

		c.setRules(t, "**=write", "d/file=view")
		check("seen now", "a/b/c", whole)
		check("viewed now", "d/file", denied)
		_, err = file.ReadAt(buf, 0)
		wantErrno(t, "read what was open", err, syscall.EACCES)
		c.setRules(t, "**=write")
		check("all", "d/file", whole)
		n, err := file.ReadAt(buf, 0)
		if string(buf[:n]) != "content" {
			t.Errorf("read what was open: %q, %v", buf[:n], err)
		}
		n, _ = lost.ReadAt(buf, 0)
		if string(buf[:n]) != "lost" {
			t.Errorf("read what has no name: %q", buf[:n])
		}
	})
}

// faults reports whether an access to mem is a fault.
func faults(mem []byte) (yes bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			yes = true
		}
	}()
	return mem[0] == 0
}

// Rules that change under load cause no hang, and in the end each name has its level by the last
// rules.
func TestRulesChangeUnderLoad(t *testing.T) {
	mountedBoth(t, setup{
		Timeout: time.Hour,
		Parse:   []string{"**=write"},
		Host: func(t *testing.T, dir string) {
			for _, name := range []string{"a/x", "a/y", "b/x", "b/y"} {
				write(t, dir, name, "content")
			}
		},
	}, func(t *testing.T, c *client) {
		stop := make(chan struct{})
		done := make(chan struct{})
		for _, dir := range []string{"a", "b"} {
			go func() {
				defer func() { done <- struct{}{} }()
				for {
					select {
					case <-stop:
						return
					default:
					}
					for _, name := range []string{"x", "y"} {
						content(c.at(filepath.Join(dir, name)))
					}
					content(c.at(dir))
					_ = os.WriteFile(c.at(dir+"/new"), []byte("new"), 0o644)
					_ = os.Rename(c.at(dir+"/new"), c.at(dir+"/newer"))
				}
			}()
		}
		for range 200 {
			c.setRules(t, "**=write", "x=none", "/a/y=read")
			if got := content(c.at("b/x")); got != syscall.ENOENT.Error() {
				t.Errorf("hidden: %q", got)
			}
			wantErrno(t, "write", os.WriteFile(c.at("a/y"), nil, 0o644), syscall.EACCES)
			c.setRules(t, "**=write", "y=none")
			if got := content(c.at("a/x")); got != "7:content" {
				t.Errorf("shown: %q", got)
			}
		}
		close(stop)
		<-done
		<-done
	})
}
