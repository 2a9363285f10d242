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
	err := s.kept[0].Truncate(0)
	if err == nil {
		err = s.kept[0].Sync() // also after a crash of the machine
	}
	if err != nil {
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

// save does a request to keep the sandbox's memory in dir.
func (s *shim) save(dir *os.File, req *boot.Request) error {
	first := req.Review
	if dir == nil {
		return runtime.Errorf(runtime.ErrInvalid, "a directory for the memory has to come with the request")
	}
	if first != nil && (s.tree == nil || !s.boot.Config.CopyOnWrite) {
		return runtime.Errorf(runtime.ErrInvalid,
			"the sandbox works on the host's directory itself: it has no changes to copy")
	}
	var complete func(bool) error
	err := s.whileStill(func() (_ bool, err error) {
		if s.tree != nil {
			writeBack(rootfs.TreeDir(s.boot))
		}
		if first != nil {
			ask := boot.TreeRequest{Op: boot.AskReview, Review: first}
			if _, err := s.tree.ask(ask, nil, boot.ReviewLimit); err != nil {
				return false, err
			}
			step.Reached("save: changes copied")
		}
		complete, err = s.inst.Save(dir)
		return false, err
	})
	if complete == nil {
		return err
	}
	step.Reached("save: memory written")
	return errors.Join(err, finish(complete, dir, req.Sync)) // meanwhile the sandbox runs on
}

// finish completes a memory that Save has written to dir.
func finish(complete func(bool) error, dir *os.File, durable bool) error {
	if err := complete(durable); err != nil {
		return err
	}
	step.Reached("save: memory kept")
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil || st.Nlink == 0 {
		return errors.Join(err, runtime.Errorf(runtime.ErrConflict, "the directory for the memory was removed"))
	}
	return nil
}

// hibernate keeps the sandbox's memory in its run directory, and ends all processes. idle says that
// it was not used: if it is used now, it runs on. If it runs on, or ends otherwise, nothing is
// kept.
func (s *shim) hibernate(idle bool) error {
	used := func() bool {
		busy, _ := s.relay.usage()
		return idle && busy
	}
	if used() {
		return nil
	}
	return s.whileStill(func() (ended bool, err error) {
		path := filepath.Join(s.boot.Run, statedir.CowMemory)
		// first what a shim that was killed has left, or a start that has restored it
		if err := errors.Join(statedir.ForgetMemory(s.boot.Run), os.Mkdir(path, 0o700)); err != nil {
			return false, runtime.WithClass(runtime.ErrUnavailable, err)
		}
		defer func() {
			if !ended {
				err = errors.Join(err, statedir.ForgetMemory(s.boot.Run))
			}
		}()
		dir, err := os.OpenFile(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return false, runtime.WithClass(runtime.ErrUnavailable, err)
		}
		defer dir.Close()
		if s.tree != nil {
			writeBack(rootfs.TreeDir(s.boot))
		}
		complete, err := s.inst.Save(dir)
		if err == nil {
			err = finish(complete, dir, true)
		}
		if err != nil || used() {
			return false, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.outcome != nil {
			return false, errEnds
		}
		s.outcome = &statedir.Status{State: runtime.StateStopped, Reason: statedir.Hibernates}
		s.record(s.outcome)
		_ = os.Remove(statedir.Socket(s.boot.Run)) // now: the next client starts it again
		_ = s.inst.Kill()                          // PID 1, which stands still, cannot be asked
		return true, nil
	})
}
