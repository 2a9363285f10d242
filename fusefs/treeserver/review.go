package treeserver

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/beneath"
	"wolffia/internal/sys/rawsock"
	"wolffia/internal/sys/step"
	"wolffia/runtime"
)

// review does what a client asks for, and answers by a connection of the client's, passed, which
// may be nil and which it closes. While it works on the layers, nothing is changed in the tree.
func (t *treeServer) review(r *boot.Review, passed *os.File) error {
	defer passed.Close() // nil, or closed before, is fine
	if t.copied == nil {
		return runtime.Errorf(runtime.ErrInvalid, "the sandbox works on the host's directory itself: create it with --cow")
	}
	if r.Do == boot.ReviewExchange {
		err := t.exchange(passed, r.Send)
		if err != nil && runtime.Class(err) == nil {
			err = runtime.WithClass(runtime.ErrUnavailable, err)
		}
		return err
	}
	// The answer waits on the disk: the client may be slow, and must not hold the tree up.
	spool, err := newSpool(int(t.copied.work.Fd()))
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "make a file for the answer: %w", err)
	}
	defer spool.close()
	answer := bufio.NewWriterSize(spool, 64<<10)
	if r.Answer && (passed == nil || !rawsock.Is(passed, unix.AF_UNIX, unix.SOCK_STREAM, 0, false)) {
		return runtime.Errorf(runtime.ErrInvalid, "a unix stream socket for the answer has to come with the request")
	}
	stopped := func() bool { return t.ending.Load() || r.Answer && rawsock.HungUp(passed) }
	work := func() error { return t.work(r, stopped, answer) }
	if t.server != nil {
		err = t.server.Quiesce(work)
	} else {
		err = work()
	}
	step.Reached("review: done")
	if err != nil && runtime.Class(err) == nil {
		err = runtime.WithClass(runtime.ErrUnavailable, err)
	}
	if !r.Answer {
		return err
	}
	if serr := sendAnswer(passed, spool, answer); serr != nil && err == nil {
		err = runtime.Errorf(runtime.ErrUnavailable, "send the answer: %w", serr)
	}
	return err
}

// sendAnswer writes the content of spool to the client, in the time that a review may take, and
// closes the connection passed, which it owns. The client cannot make a thread wait.
func sendAnswer(passed *os.File, spool *spool, buffered *bufio.Writer) error {
	if err := buffered.Flush(); err != nil {
		return err
	}
	client, err := rawsock.FileSocket(passed) // not before: the work may use all descriptors that there are
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.PollAll(); err != nil {
		return err
	}
	late := time.AfterFunc(boot.ReviewLimit, func() { _ = client.Close() })
	defer late.Stop()
	return spool.sendTo(client)
}

// layers returns the layers of the sandbox, by the rules in force.
func (t *treeServer) layers() *cow.Layers {
	l := &cow.Layers{
		Root: t.root, Upper: int(t.copied.upper.Fd()), Work: int(t.copied.work.Fd()),
		Log: t.copied.log, Rules: t.policy.Load(), Undo: t.copied.undo,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	if t.git != nil {
		l.Relocated = func(from, to string) error { return t.git.Moved(from, to, false) }
	}
	if t.server != nil {
		l.Alone = t.server.Alone
		l.BeforeRemove = func(path string) { t.server.Discarded([]string{path}) }
		l.Moved = func() { t.server.Discarded(nil) }
	}
	return l
}

// work does what r asks for, unless it is stopped, and writes the answer.
func (t *treeServer) work(r *boot.Review, stopped func() bool, w io.Writer) error {
	l := t.layers()
	l.Stopped = stopped
	var paths []string
	for _, p := range r.Paths {
		paths = append(paths, string(p))
	}
	out := json.NewEncoder(w)
	switch r.Do {
	case boot.ReviewChanges, boot.ReviewDiff, boot.ReviewApply, boot.ReviewHunks:
		if err := t.serves(r.At); err != nil {
			return err
		}
	}
	switch r.Do {
	case boot.ReviewChanges:
		changes, err := l.Changes(runtime.ChangesOptions{Paths: paths, Lines: r.Lines})
		for i := range changes {
			err = errors.Join(err, out.Encode(&changes[i]))
		}
		return err
	case boot.ReviewDiff:
		return l.Diff(runtime.DiffOptions{Paths: paths}, w)
	case boot.ReviewApply, boot.ReviewHunks:
		o := runtime.ApplyOptions{Paths: paths, DryRun: r.DryRun, Force: r.Force}
		for _, h := range r.Hunks {
			o.Hunks = append(o.Hunks, runtime.Hunks{Path: string(h.Path), Digest: h.Digest, Only: h.Only})
		}
		result, err := l.Apply(o)
		return errors.Join(err, encodeResult(out, result))
	case boot.ReviewDiscard:
		n, err := l.Discard(paths)
		return errors.Join(err, out.Encode(n))
	case boot.ReviewSnapshot:
		return t.snapshot(l, r.From, r.Name, r.Memory && t.server == nil)
	case boot.ReviewRestore:
		return t.restore(r.Name)
	case boot.ReviewRecover:
		return l.Recover()
	}
	return runtime.Errorf(runtime.ErrUnsupported, "the tree server does not know the work %q", r.Do)
}

func encodeResult(out *json.Encoder, result *runtime.ApplyResult) error {
	if result == nil {
		return nil
	}
	var err error
	for i := range result.Applied {
		err = errors.Join(err, out.Encode(&boot.Applied{Change: &result.Applied[i], Done: true}))
	}
	for i := range result.Left {
		err = errors.Join(err, out.Encode(&boot.Applied{Change: &result.Left[i]}))
	}
	return err
}

// snapshot copies the changes, or those of a snapshot that is named, to a snapshot; with memory also
// the memory of the next start.
func (t *treeServer) snapshot(l *cow.Layers, of, name string, memory bool) error {
	if !statedir.ValidSnapshot(name) {
		return runtime.Errorf(runtime.ErrInvalid, "%q is not a name for a snapshot", name)
	}
	dir := int(t.copied.dir.Fd())
	if err := unix.Mkdirat(dir, statedir.CowSnapshots, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	to, err := openBelow(dir, statedir.CowSnapshots)
	if err != nil {
		return err
	}
	defer to.Close()
	var st unix.Stat_t
	if unix.Fstatat(int(to.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return runtime.Errorf(runtime.ErrExists, "there is a snapshot %s already: choose another name", name)
	}
	if of != "" {
		err = t.copySnapshot(of, to)
	} else {
		err = copyLayers(l, t.copied.dir, to, statedir.CowComing, memory)
	}
	if err != nil {
		return err
	}
	step.Reached("snapshot: copied")
	err = unix.Renameat2(int(to.Fd()), statedir.CowComing, int(to.Fd()), name, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EEXIST) {
		return runtime.Errorf(runtime.ErrExists, "there is a snapshot %s already: choose another name", name)
	}
	return err
}

// restore makes the changes those of a snapshot. That happens at the next start, or with the next
// review.
func (t *treeServer) restore(name string) error {
	if t.server != nil {
		return runtime.Errorf(runtime.ErrConflict, "the sandbox runs: stop it before its changes are replaced")
	}
	dir := t.copied.dir
	if err := t.copySnapshot(name, dir); err != nil {
		return err
	}
	if err := unix.Syncfs(int(dir.Fd())); err != nil { // the replaced snapshot is deleted
		return fmt.Errorf("flush the copy of the snapshot: %w", err)
	}
	step.Reached("restore: copied")
	// which is of the changes that go
	if err := statedir.ForgetMemory(t.boot.Run); err != nil {
		return fmt.Errorf("give the memory up with which the sandbox hibernates: %w", err)
	}
	if err := unix.Renameat2(int(dir.Fd()), statedir.CowComing, int(dir.Fd()), statedir.CowRestored, unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	step.Reached("restore: complete")
	if err := finishRestore(dir); err != nil {
		return fmt.Errorf("put the snapshot in place: %w", err)
	}
	return nil
}

// copySnapshot copies a snapshot to statedir.CowComing in the directory to.
func (t *treeServer) copySnapshot(name string, to *os.File) error {
	if !statedir.ValidSnapshot(name) {
		return runtime.Errorf(runtime.ErrInvalid, "%q is not a name for a snapshot", name)
	}
	dir := t.copied.dir
	from, err := openBelow(int(dir.Fd()), statedir.CowSnapshots+"/"+name)
	if errors.Is(err, unix.ENOENT) {
		return runtime.Errorf(runtime.ErrNotFound, "there is no snapshot %s", name)
	}
	if err != nil {
		return err
	}
	defer from.Close()
	upper, err := openBelow(int(from.Fd()), statedir.CowUpper)
	if err != nil {
		return err
	}
	defer upper.Close()
	fd, err := beneath.Open(int(from.Fd()), statedir.CowLog, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	log, err := cow.OpenLog(os.NewFile(uintptr(fd), statedir.CowLog))
	if err != nil {
		return err
	}
	defer log.Close()
	return copyLayers(&cow.Layers{Upper: int(upper.Fd()), Log: log}, from, to, statedir.CowComing, true)
}

func openBelow(dir int, name string) (*os.File, error) {
	fd, err := beneath.Open(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}
