package local

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/rmtree"
	"wolffia/internal/sys/step"
	"wolffia/local/conns"
	"wolffia/local/kept"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// canKeepMemory refuses a sandbox whose memory cannot be kept in a snapshot or fork, or not be restored.
func (s *catalog) canKeepMemory(c *statedir.Config) error {
	err := s.canHibernate(c)
	if err == nil && (c.Image != "" || c.OverHost()) {
		err = runtime.Errorf(runtime.ErrUnsupported,
			"a snapshot or fork with the memory of a sandbox that changes an image or the host's system: its open "+
				"files are in a layer that is not copied; leave --image and --root out, or hibernate it: wolffia "+
				"pause --hibernate")
	}
	return err
}

// canHibernate refuses a sandbox whose memory cannot be kept, or not be restored by itself.
func (s *catalog) canHibernate(c *statedir.Config) error {
	switch backend := s.backend(c.Runtime); {
	case backend == nil || !backend.Can.Has(launch.KeepsMemory):
		return runtime.Errorf(runtime.ErrUnsupported,
			"memory of a sandbox with runtime %s: memory is kept by --runtime gvisor only", c.Runtime)
	case c.Network == runtime.NetworkHost:
		return runtime.Errorf(runtime.ErrUnsupported,
			"memory of a sandbox with the host's network: its connections are in the host's kernel, which "+
				"keeps none; use another --network")
	case c.CodebasePath != "" && c.Native():
		return runtime.Errorf(runtime.ErrUnsupported,
			"memory of a sandbox with --filter %s: its open files are the host's own, and nothing holds "+
				"them while it is kept; use --filter fuse", c.Filter)
	}
	return nil
}

// keptPrefix begins the names of directories that a memory is written to.
const keptPrefix = ".kept-"

// keepMemory makes a snapshot with the memory of a sandbox that runs, and with its changes if the
// codebase is copied, all of one moment. With sync the memory is on the disk. It returns its name,
// which begins with forkPrefix.
func (s *reviews) keepMemory(
	ctx context.Context, rec *statedir.Record, c *statedir.Config, sync bool,
) (name string, err error) {
	if err := s.canKeepMemory(c); err != nil {
		return "", err
	}
	if err := hasMemory(rec); err != nil {
		return "", err
	}
	dir, err := kept.SnapshotsDir(rec)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	name = forkPrefix + strings.ToLower(rand.Text())
	coming := keptPrefix + strings.ToLower(rand.Text())
	defer func() {
		if err != nil {
			err = errors.Join(err, rmtree.Remove(dir, coming), rmtree.Remove(dir, name))
		}
	}()
	into, err := kept.Make(dir, coming, c)
	if err != nil {
		return "", runtime.Errorf(runtime.ErrUnavailable,
			"make a directory for the memory of sandbox %s: %w", rec.ID(), err)
	}
	defer into.Close()
	req := &boot.Request{Op: boot.OpSave, Sync: sync}
	if c.CopyOnWrite {
		req.Review = &boot.Review{Do: boot.ReviewSnapshot, Name: name, At: boot.DirAt(c.CodebasePath)}
	}
	if _, err := conns.AskWith(ctx, rec, req, into, boot.ReviewLimit); err != nil {
		return "", notKept(rec, err)
	}
	step.Reached("memory: kept")
	if !c.CopyOnWrite {
		if err := unix.Mkdirat(int(dir.Fd()), name, 0o700); err != nil {
			return "", runtime.WithClass(runtime.ErrUnavailable, err)
		}
	}
	if err = kept.Own(into, dir); err == nil {
		err = unix.Renameat(int(dir.Fd()), coming, int(dir.Fd()), name+"/"+statedir.CowMemory)
	}
	if err != nil {
		return "", runtime.Errorf(runtime.ErrUnavailable, "keep the memory of sandbox %s: %w", rec.ID(), err)
	}
	step.Reached("memory: in its snapshot")
	return name, nil
}

// notKept names the sandbox in the error of a shim that has not kept its memory.
func notKept(rec *statedir.Record, err error) error {
	if !strings.Contains(err.Error(), rec.ID()) {
		err = runtime.Errorf(runtime.Class(err), "sandbox %s: %w", rec.ID(), err)
	}
	return ofAnotherVersion(rec, err)
}

// hasMemory refuses a sandbox without processes.
func hasMemory(rec *statedir.Record) error {
	state, _, err := rec.State()
	switch {
	case err != nil || state.Runs():
	case state == runtime.StateHibernated:
		err = runtime.Errorf(runtime.ErrConflict, "sandbox %s hibernates: wolffia start %[1]s first", rec.ID())
	default:
		err = runtime.Errorf(runtime.ErrConflict,
			"sandbox %s does not run: it has no memory to keep; wolffia start %[1]s", rec.ID())
	}
	return err
}

// snapshotMemory makes a snapshot with memory.
func (s *reviews) snapshotMemory(ctx context.Context, sandboxID, name string) error {
	rec, c, err := s.find(sandboxID)
	if err != nil {
		return err
	}
	dir := filepath.Join(statedir.Cow(rec.Run()), statedir.CowSnapshots)
	taken := runtime.Errorf(runtime.ErrExists, "there is a snapshot %s already: choose another name", name)
	if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
		return taken
	}
	release, err := hiding(ctx, rec)
	if err != nil {
		return err
	}
	defer release()
	hidden, err := s.keepMemory(ctx, rec, c, true)
	if err != nil {
		return err
	}
	from, to := filepath.Join(dir, hidden), filepath.Join(dir, name)
	err = unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EEXIST) {
		err = taken
	}
	if err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, errors.Join(err, rmtree.RemovePath(dir, hidden)))
	}
	return nil
}

// restoreMemory has the next start of a sandbox without a copied codebase restore a snapshot.
func (s *reviews) restoreMemory(rec *statedir.Record, name string) error {
	if !statedir.ValidSnapshot(name) {
		return runtime.Errorf(runtime.ErrNotFound, "there is no snapshot %q", name)
	}
	release, err := rec.TryLockAll()
	if errors.Is(err, runtime.ErrConflict) {
		return stopFirst(rec)
	}
	if err != nil {
		return err
	}
	defer release()
	cow := statedir.Cow(rec.Run())
	if err := rmtree.RemovePath(cow, statedir.CowComing); err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	if err := kept.Copy(rec, statedir.CowSnapshots+"/"+name, ".", statedir.CowComing); err != nil {
		return err
	}
	step.Reached("restore: copied")
	if err := kept.Forget(rec); err != nil {
		return err
	}
	err = unix.Rename(filepath.Join(cow, statedir.CowComing, statedir.CowMemory), filepath.Join(cow, statedir.CowMemory))
	if err = errors.Join(err, rmtree.RemovePath(cow, statedir.CowComing)); err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "restore snapshot %s: %w", name, err)
	}
	return nil
}

// HasMemory reports whether the next start of a sandbox restores memory that was kept.
func (s *reviews) HasMemory(sandboxID string) bool {
	rec, _, err := s.header(sandboxID)
	return err == nil && kept.Exists(rec)
}

// Hibernate keeps the memory of a sandbox that runs, and ends its processes: the next Start, or
// use, restores it. One that hibernates already is not an error. If it fails the sandbox runs on,
// or has ended as its state says.
func (s *reviews) Hibernate(ctx context.Context, sandboxID string) error {
	rec, c, err := s.find(sandboxID)
	if err == nil {
		err = s.canHibernate(c)
	}
	if err != nil {
		return err
	}
	if state, _, _ := rec.State(); state == runtime.StateHibernated {
		return nil
	}
	if err := hasMemory(rec); err != nil {
		return err
	}
	s.starter.gits.BeforeStop(ctx, rec, c)
	req := &boot.Request{Op: boot.OpSave, Sync: true, End: true}
	_, asked := conns.Ask(ctx, rec, req, boot.ReviewLimit)
	if asked != nil && !kept.Hibernates(rec) { // else the shim has ended before its answer was read
		return notKept(rec, asked)
	}
	err = rec.WaitUnlocked(ctx, boot.EndLimit)
	s.starter.conns.End(rec.ID())
	s.starter.alive.Close(rec.ID())
	return err
}
