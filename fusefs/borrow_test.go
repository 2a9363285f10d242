package fusefs

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/test/wait"

	"golang.org/x/sys/unix"
)

// Acceptance test 11, for attributes: a change of mode or times copies no content, and the content
// follows the host until the first write, or a rename.
func TestCopiedBorrowing(t *testing.T) {
	const huge = 10 << 30
	mounted(t, setup{
		Copied: true, Borrow: true, Timeout: time.Hour, Parse: []string{"**=write"},
		Host: func(t *testing.T, dir string) {
			for _, name := range []string{"mode", "moved", "d/written", "held", "gone", "cut"} {
				write(t, dir, name, "version 0")
			}
			write(t, dir, "huge", "start")
			ok(t, "truncate", os.Truncate(filepath.Join(dir, "huge"), huge))
		},
	}, func(t *testing.T, c *client) {
		walkSmall := func() {
			for _, name := range []string{"mode", "to/moved", "d/written", "held", "gone", "cut"} {
				_, _ = os.ReadFile(c.at(name))
			}
		}
		walkSmall()
		past := time.Unix(77, 5)
		ok(t, "chmod", os.Chmod(c.at("huge"), 0o600))
		ok(t, "utimes", os.Chtimes(c.at("huge"), past, past))
		var st unix.Stat_t
		ok(t, "stat", unix.Stat(c.at("huge"), &st))
		if st.Size != huge || st.Mode&0o777 != 0o600 || st.Mtim.Sec != 77 {
			t.Errorf("the file has %d bytes, mode %o and time %v", st.Size, st.Mode, st.Mtim)
		}
		if used := c.usage(t); used.Bytes > maxBorrowBlocks {
			t.Errorf("the upper layer takes %d bytes", used.Bytes)
		}

		ok(t, "mkdir", os.Mkdir(c.at("to"), 0o755))
		for _, name := range []string{"moved", "mode", "d/written", "held", "gone", "cut"} {
			ok(t, "chmod", os.Chmod(c.at(name), 0o700))
		}
		held, err := os.OpenFile(c.at("held"), os.O_RDWR, 0)
		ok(t, "open", err)
		defer held.Close()
		walkSmall()
		for _, name := range []string{"mode", "d/written"} {
			write(t, c.host, name, "version 1, longer")
			c.sees(t, "a write by the host: "+name, name, "version 1, longer")
			save(t, c.host, name, "version 2")
			c.sees(t, "a save by the host: "+name, name, "version 2")
		}
		ok(t, "rename", os.Rename(c.at("moved"), c.at("to/moved")))
		ok(t, "rename the directory", os.Rename(c.at("d"), c.at("e")))
		ok(t, "remove on the host", os.Remove(filepath.Join(c.host, "moved")))
		c.sees(t, "a renamed file has content of its own", "to/moved", "version 0")
		save(t, c.host, "d/written", "version 3")
		c.sees(t, "a save by the host in a renamed directory", "e/written", "version 3")
		var own unix.Stat_t
		ok(t, "stat", unix.Stat(c.at("mode"), &own))
		if own.Mode&0o777 != 0o700 {
			t.Errorf("the mode is %o after the host's change", own.Mode)
		}

		f, err := os.OpenFile(c.at("e/written"), os.O_WRONLY|os.O_APPEND, 0)
		ok(t, "open", err)
		_, err = f.WriteString(" and more")
		ok(t, "write", err)
		f.Close()
		save(t, c.host, "d/written", "version 4")
		ok(t, "cut", os.Truncate(c.at("cut"), 3))
		ok(t, "remove", os.Remove(c.at("held")))
		buf := make([]byte, 9)
		_, err = held.ReadAt(buf, 0)
		if ok(t, "read what is removed", err); string(buf) != "version 0" {
			t.Errorf("what is removed has %q", buf)
		}
		_, err = held.WriteAt([]byte("V"), 0)
		ok(t, "write what is removed", err)
		for name, want := range map[string]string{"e/written": "18:version 3 and more", "cut": "3:ver"} {
			if got := content(c.at(name)); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		if got := content(filepath.Join(c.host, "held")); got != "9:version 0" {
			t.Errorf("the host has %s", got)
		}

		ok(t, "remove on the host", os.Remove(filepath.Join(c.host, "gone")))
		wait.Until(t, "the content is gone", func() bool {
			_, err := os.ReadFile(c.at("gone"))
			return errnoIn(err) == syscall.ENOENT
		})
		ok(t, "write it anew", os.WriteFile(c.at("gone"), []byte("new"), 0o644))
		c.sees(t, "written anew", "gone", "new")

		write(t, c.host, "d/other", "version 0")
		c.sees(t, "a new file", "e/other", "version 0")
		ok(t, "chmod", os.Chmod(c.at("e/other"), 0o700))
		c.setRules(t, "**=write", "/d/other=none", "/mode=read")
		_, err = os.Lstat(c.at("e/other"))
		wantErrno(t, "what the host's name hides", err, syscall.ENOENT)
		wantErrno(t, "write what may be read", os.WriteFile(c.at("mode"), nil, 0o644), syscall.EACCES)
	})
}
