package rootfs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/rmtree"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// furnish makes the places to mount on in an image's root directory, and names the user
// and the host in its /etc. What the image, or the sandbox during an earlier start, has
// there instead is replaced. No symbolic link is followed.
func furnish(b *boot.Params, spec *launch.Spec) error {
	root, err := os.OpenRoot(spec.RootDir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := openUp(root, "."); err != nil {
		return err
	}
	for _, m := range spec.Mounts() {
		file := m.Kind == launch.Filter
		switch m.Kind {
		case launch.Cover, launch.Shm: // in /proc and /dev
			continue
		case launch.Bind:
			st, err := os.Stat(m.Source)
			file = err == nil && !st.IsDir()
		}
		dir := m.Target
		if file {
			dir = path.Dir(dir)
		}
		err := in(root, dir, func(at *os.Root) error {
			if !file {
				return nil
			}
			if st, err := at.Lstat(path.Base(m.Target)); err == nil && st.Mode().IsRegular() {
				return nil
			}
			return write(at, path.Base(m.Target), "")
		})
		if err != nil {
			return fmt.Errorf("make %s in the image: %w", m.Target, err)
		}
	}
	if b.Config.Root {
		if err := in(root, launch.SudoDir, linkSudo); err != nil {
			return fmt.Errorf("make %s in the image: %w", launch.SudoDir, err)
		}
	}
	return furnishEtc(root, &b.Config)
}

// linkSudo makes sudo in its directory.
func linkSudo(bin *os.Root) error {
	err := bin.Symlink("../"+path.Base(launch.GuestPath), launch.Sudo)
	if errors.Is(err, fs.ErrExist) { // of an earlier start
		return nil
	}
	return err
}

// Own returns the names in a root directory over an image that are the sandbox's, and not the
// image's: what furnish writes there, and what is mounted over. They are relative to the root.
func Own(c *statedir.Config) []string {
	names := []string{"proc", "sys", "dev", "etc/hosts", "etc/hostname", "etc/resolv.conf", "run/.w", "run/wolffia"}
	if !c.Root { // with the user added
		names = append(names, "etc/passwd", "etc/group", strings.TrimPrefix(Home(c), "/"))
	}
	if c.Network == "" || c.Network == runtime.NetworkNone {
		names = append(names, "etc/nsswitch.conf")
	}
	var targets []string
	if c.CodebasePath != "" || !c.BareImage {
		targets = append(targets, c.MountPointOrDefault(), "/tmp")
	}
	for _, m := range slices.Concat(c.Mounts, volumeMounts(&boot.Params{Config: *c})) {
		targets = append(targets, m.Target)
	}
	for _, s := range c.Sockets {
		targets = append(targets, s.Target)
	}
	for _, target := range targets {
		if name := strings.TrimPrefix(path.Clean(target), "/"); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// in calls f with the directory of that name below root. It makes what is missing of it,
// and replaces what is not a directory.
func in(root *os.Root, name string, f func(*os.Root) error) error {
	name, rest, _ := strings.Cut(strings.Trim(name, "/"), "/")
	if name == "" {
		return f(root)
	}
	st, err := root.Lstat(name)
	if err == nil && !st.IsDir() {
		err = cmp.Or(root.Remove(name), fs.ErrNotExist)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = root.Mkdir(name, 0o755)
	} else if err == nil {
		err = openUp(root, name)
	}
	if err != nil {
		return err
	}
	next, err := root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer next.Close()
	return in(next, rest, f)
}

// openUp gives a directory's owner, the sandbox's user, all permissions: PID 1's program
// is below it.
func openUp(root *os.Root, dir string) error {
	st, err := root.Lstat(dir)
	if err == nil && st.Mode().Perm()&0o700 != 0o700 {
		err = root.Chmod(dir, st.Mode()|0o700)
	}
	return err
}

// write makes a file anew, in the place of anything else.
func write(dir *os.Root, name, content string) error {
	parent, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer parent.Close()
	if err := rmtree.Remove(parent, name); err != nil {
		return err
	}
	return dir.WriteFile(name, []byte(content), 0o644)
}

// read returns the content of a regular file, up to maxEtcFile; empty if it is something
// else, or not there.
func read(dir *os.Root, name string) (string, error) {
	st, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil || !st.Mode().IsRegular() {
		return "", err
	}
	f, err := dir.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return readUpTo(f)
}
