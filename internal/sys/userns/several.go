package userns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/child"
)

// ErrNamespaces: the kernel has not made the namespaces.
var ErrNamespaces = errors.New("the kernel makes no user namespace for this user")

// mapLimit is how long the ids of a namespace may take: newuidmap(1) may ask a server for names.
const mapLimit = 20 * time.Second

// Start starts a program as user and group 0 of a new user namespace with the IDs, in a new mount
// namespace. The program may change its groups (setgroups(2)). Root writes the ids itself; for
// another user newuidmap(1) and newgidmap(1) do, while the program has not begun. The program has
// an open pipe without a reader beside c.Files, as its last descriptor: it closes all that it does
// not know. If the stage fails, it also reports to descriptor 6: see Failed.
func (ids *IDs) Start(c *child.Command) (*child.Child, error) {
	if os.Geteuid() == 0 {
		d, attr := *c, syscall.SysProcAttr{}
		if c.Attr != nil {
			attr = *c.Attr
		}
		attr.Cloneflags |= syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS
		attr.UidMappings, attr.GidMappings = mappings(ids.UID, ids.SubUID), mappings(ids.GID, ids.SubGID)
		attr.GidMappingsEnableSetgroups, attr.Credential = true, new(syscall.Credential)
		d.Attr = &attr
		return child.Start(&d)
	}
	w, err := startWaiting(c)
	if err != nil {
		return nil, err
	}
	return w.Child, w.resume(ids.write(w.PID()))
}

// mappings returns the ids of the users, or of the groups.
func mappings(own, sub int) []syscall.SysProcIDMap {
	return []syscall.SysProcIDMap{{HostID: own, Size: 1}, {ContainerID: 1, HostID: sub, Size: Count}}
}

// Withheld is the id of a namespace of several users that those below it lack (Inner, Same). Root
// there has no rights to a file that belongs to it.
const Withheld = Count

// Same returns the ids of such a namespace, but for Withheld, for another one below it.
func Same() []syscall.SysProcIDMap {
	return []syscall.SysProcIDMap{{Size: 1}, {ContainerID: 1, HostID: 1, Size: Withheld - 1}}
}

// Run runs a program, an open file, as Start does, with args, the program's name among them, and
// with files as its descriptors from 3 on. It waits for the end; an error has what the program has
// written to its standard error. ctx ends the program.
func (ids *IDs) Run(ctx context.Context, program *os.File, args []string, files ...*os.File) error {
	said, say, err := os.Pipe()
	if err != nil {
		return err
	}
	defer said.Close()
	all := append([]*os.File{2: say}, files...)
	c, err := ids.Start(&child.Command{
		Path: "/proc/self/fd/" + strconv.Itoa(len(all)), Args: args,
		Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, Files: append(all, program),
	})
	_ = say.Close()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Kill() })
	defer stop()
	text := text(said)
	_ = c.Wait()
	if err = c.Failure(); err != nil && text != "" {
		return errors.New(text)
	}
	return errors.Join(err, ctx.Err())
}

// RemoveArg is the first argument of a program that deletes the name which is its second one, with
// all below it, in the directory RemoveFD.
const (
	RemoveArg = "remove"
	RemoveFD  = 3
)

// Remove has such a program delete a name, in a tree with files of the IDs.
func (ids *IDs) Remove(ctx context.Context, program, parent *os.File, name string) error {
	return ids.Run(ctx, program, []string{"wolffia", RemoveArg, name}, parent)
}

// text returns what a program writes, up to its end, but no more than a message may have.
func text(r io.Reader) string {
	b, _ := io.ReadAll(io.LimitReader(r, 4096))
	_, _ = io.Copy(io.Discard, r)
	return strings.TrimSpace(string(b))
}

// Inner returns a new user namespace below this process's, which is one of several users and whose
// root this process is. It has the same ids, but for Withheld. Further ones cannot be made below it, nor beside it.
// The caller closes it.
func Inner() (_ *os.File, err error) {
	w, err := startWaiting(&child.Command{Path: "/proc/self/exe", Args: []string{"wolffia"}})
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, w.Kill(), w.pipe.Close())
		<-w.Gone()
	}()
	dir := fmt.Sprintf("/proc/%d/", w.PID())
	for _, file := range []string{"uid_map", "gid_map"} {
		if err := os.WriteFile(dir+file, fmt.Appendf(nil, "0 0 1\n1 1 %d\n", Withheld-1), 0); err != nil {
			return nil, err
		}
	}
	// This process's own namespace gets the limit, which holds for all below it (namespaces(7)).
	if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
		return nil, err
	}
	return os.Open(dir + "ns/user")
}

// A waiting is a stage that has made its namespaces and waits for their ids.
type waiting struct {
	*child.Child
	pipe *os.File
}

// startWaiting starts a stage that executes c once its pipe has been read to the end. The stage of
// Args writes texts to files: here the file is a pipe, and the text has a byte more than fits.
func startWaiting(c *child.Command) (_ *waiting, err error) {
	stage, err := Stage()
	if err != nil {
		return nil, err
	}
	defer stage.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	defer func() {
		if err != nil {
			_ = r.Close()
		}
	}()
	size := os.Getpagesize()
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, size); err != nil {
		return nil, os.NewSyscallError("fcntl F_SETPIPE_SZ", err)
	}
	d := *c
	d.Files = append(slices.Clone(c.Files), make([]*os.File, max(0, FD+1-len(c.Files)))...)
	d.Files = append(d.Files, w)
	d.Files[FD] = stage
	d.Path, d.Args = Path, append([]string{
		"wolffia-userns",
		"/proc/self/fd/" + strconv.Itoa(len(d.Files)-1), strings.Repeat("x", size+1),
		os.DevNull, "", os.DevNull, "", // Args has three files
		c.Path,
	}, c.Args...)
	started, err := child.Start(&d)
	if err != nil {
		return nil, err
	}
	_ = w.Close() // the stage's end shows
	if _, err := r.Read(make([]byte, 1)); err != nil {
		<-started.Gone()
		return nil, ErrNamespaces
	}
	return &waiting{started, r}, nil
}

// resume has the stage go on, or ends it if err is not nil, and returns err.
func (w *waiting) resume(err error) error {
	if err != nil {
		_ = w.Kill()
		<-w.Gone()
	} else { // the text's first byte has been read
		_, err = io.ReadFull(w.pipe, make([]byte, os.Getpagesize()))
	}
	_ = w.pipe.Close()
	return err
}

// helperDirs are where newuidmap and newgidmap are, with the privilege to write ids: of no other
// place, such as one in PATH, is a program executed.
var helperDirs = []string{"/usr/bin", "/bin", "/run/wrappers/bin"}

// helper returns the path of one of the two.
func helper(name string) (string, error) {
	for _, dir := range helperDirs {
		var st unix.Stat_t
		path := filepath.Join(dir, name)
		if err := unix.Stat(path, &st); err != nil {
			continue
		}
		if st.Uid != 0 || st.Mode&0o022 != 0 || st.Mode&unix.S_IFMT != unix.S_IFREG {
			return "", &Lack{path + " is not a file of root's alone", "apt-get install --reinstall uidmap"}
		}
		return path, nil
	}
	return "", &Lack{name + " is not in " + helperDirs[0], "apt-get install uidmap"}
}

// Check returns an error, such as a *Lack, that says why no process can be given the ids. It starts
// nothing.
func (ids *IDs) Check() error {
	if os.Geteuid() == 0 {
		return nil
	}
	if nnp, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err == nil && nnp == 1 {
		return errors.New("newuidmap gets no privileges in this process, which is in no_new_privs, as in a sandbox")
	}
	for _, name := range []string{"newuidmap", "newgidmap"} {
		if _, err := helper(name); err != nil {
			return err
		}
	}
	return nil
}

// write has the helpers write the ids of the namespace of a process, which waits.
func (ids *IDs) write(pid int) error {
	if err := ids.Check(); err != nil {
		return err
	}
	errs := make(chan error, 2)
	for _, m := range []struct {
		name, file string
		own, sub   int
	}{{"newuidmap", "uid_map", ids.UID, ids.SubUID}, {"newgidmap", "gid_map", ids.GID, ids.SubGID}} {
		go func() { errs <- writeMap(pid, m.name, m.file, m.own, m.sub) }() // ends with the helper
	}
	return errors.Join(<-errs, <-errs)
}

// writeMap has a helper write one of the files, and looks whether it has.
func writeMap(pid int, name, file string, own, sub int) error {
	path, err := helper(name)
	if err != nil {
		return err
	}
	said, say, err := os.Pipe()
	if err != nil {
		return err
	}
	defer said.Close()
	want := []string{"0", strconv.Itoa(own), "1", "1", strconv.Itoa(sub), strconv.Itoa(Count)}
	c, err := child.Start(&child.Command{
		Path: path, Args: append([]string{name, strconv.Itoa(pid)}, want...),
		Env: []string{"LC_ALL=C"}, Files: []*os.File{2: say},
	})
	_ = say.Close()
	if err != nil {
		return err
	}
	limit := time.AfterFunc(mapLimit, func() { _ = c.Kill(); _ = said.SetReadDeadline(time.Unix(0, 0)) })
	defer limit.Stop()
	text := text(said)
	<-c.Gone()
	is, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	switch {
	case err != nil:
		return err
	case slices.Equal(strings.Fields(string(is)), want):
		return nil
	case strings.Contains(text, "Operation not permitted"):
		problem := fmt.Sprintf("%s lacks the privilege to write ids, as in each sandbox (%s)", path, text)
		return &Lack{problem, "apt-get install --reinstall uidmap"}
	case text == "":
		text = "it gave no reason"
	}
	return fmt.Errorf("%s has not written the ids: %s", path, text)
}
