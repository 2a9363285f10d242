package shim

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/rootfs"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/step"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// memory returns the memory that the sandbox is restored from; nil: it starts.
func (s *shim) memory() (files []*os.File) {
	if s.boot.HasMemory {
		for i, name := range launch.MemoryFiles {
			files = append(files, os.NewFile(uintptr(boot.FDMemory+i), name))
		}
	}
	s.kept = files
	return files
}

// clearMemory says in the record of the memory that the sandbox is restored: from here on it is
// used, and another start from the same memory would be a second sandbox of the same past.
func (s *shim) clearMemory() error {
	if len(s.kept) == 0 {
		return nil
	}
	if err := s.kept[0].Truncate(0); err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "clear the record of the kept memory: %w", err)
	}
	for _, f := range s.kept {
		_ = f.Close()
	}
	step.Reached("memory cleared")
	return nil
}

// notRestored returns what the backend's error output says of why the memory was not restored; nil:
// nothing.
func (s *shim) notRestored(text string) error {
	if s.boot.HasMemory && s.inst.Explain != nil {
		return s.inst.Explain(text)
	}
	return nil
}

// save does a request to keep the sandbox's memory in dir. With End, the processes end unless busy
// returns true once the memory is kept: then that is not used.
func (s *shim) save(dir *os.File, req *boot.Request, busy func() bool) error {
	first := req.Review
	if s.inst.Save == nil {
		return runtime.Errorf(runtime.ErrUnsupported, "memory is kept by --runtime gvisor only")
	}
	if dir == nil {
		return runtime.Errorf(runtime.ErrInvalid, "a directory for the memory has to come with the request")
	}
	if first != nil && (s.tree == nil || !s.boot.Config.CopyOnWrite) {
		return runtime.Errorf(runtime.ErrInvalid,
			"the sandbox works on the host's directory itself: it has no changes to copy")
	}
	return s.whileStill(func() error {
		if s.tree != nil {
			writeBack(rootfs.TreeDir(s.boot))
		}
		if first != nil {
			ask := boot.TreeRequest{Op: boot.AskReview, Review: first}
			if _, err := s.tree.ask(ask, nil, boot.ReviewLimit); err != nil {
				return err
			}
			step.Reached("save: changes copied")
		}
		if err := s.inst.Save(dir, req.Sync); err != nil {
			return err
		}
		step.Reached("save: memory kept")
		var st unix.Stat_t
		if err := unix.Fstat(int(dir.Fd()), &st); err != nil || st.Nlink == 0 {
			return errors.Join(err, runtime.Errorf(runtime.ErrConflict, "the directory for the memory was removed"))
		}
		if req.End && busy() {
			return unix.Unlinkat(int(dir.Fd()), launch.MemoryFiles[0], 0)
		}
		if req.End {
			s.mu.Lock()
			if s.outcome == nil {
				s.outcome = &statedir.Status{State: runtime.StateStopped, Reason: hibernated}
			}
			s.mu.Unlock()
			_ = s.inst.Kill() // PID 1, which stands still, cannot be asked
		}
		return nil
	})
}

// hibernate keeps the sandbox's memory in its run directory, and ends all processes. idle says that
// it was not used: if it is used now, it runs on.
func (s *shim) hibernate(idle bool) error {
	busy := func() bool {
		used, _ := s.relay.usage()
		return idle && used
	}
	if busy() {
		return nil
	}
	path := filepath.Join(s.boot.Run, statedir.CowMemory)
	for _, name := range launch.MemoryFiles { // of a save that has failed
		_ = os.Remove(filepath.Join(path, name))
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	dir, err := os.OpenFile(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	defer dir.Close()
	return s.save(dir, &boot.Request{Sync: true, End: true}, busy)
}

// hibernated is why a sandbox ended whose memory was kept for the next start.
const hibernated = "it hibernates: its memory is kept, and the next start goes on"
