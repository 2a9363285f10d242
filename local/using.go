package local

import (
	"os"
	"path/filepath"

	"wolffia/internal/host/programs"
	"wolffia/internal/host/statedir"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// paths are where the programs of a start are.
type paths struct {
	guest   string   // absolute; empty: in memory only
	backend string   // the program that the shim's launcher gets; empty: none
	image   []string // the directories of the image's tree, the highest first; nil: none
}

// using are the programs that a start uses, open, so that they fit together even if wolffia
// is replaced meanwhile.
type using struct {
	paths
	set    *programs.Set
	shim   *os.File
	tree   *os.File // nil: the sandbox has none
	guest  *os.File
	keeper *os.File // nil: no engine
}

// shimProgram returns the name of the program that is the sandbox's shim.
func shimProgram(c *statedir.Config) string {
	if c.Network == runtime.NetworkFiltered {
		return programs.Net
	}
	return programs.Box
}

// checkPrograms returns the error for a program that wolffia lacks.
func (s *starter) checkPrograms(c *statedir.Config) error {
	set, err := programs.Open(s.wolffia, s.dir.Path())
	if err != nil {
		return err
	}
	defer set.Close()
	if backend := s.backend(c.Runtime); backend.Place != launch.BesideShim {
		if err := set.Check(backend.Keeper); err != nil {
			return err
		}
	}
	if c.Serves() || c.OverHost() {
		if err := set.Check(programs.Tree); err != nil {
			return err
		}
	}
	if err := set.Check(programs.Guest); err != nil {
		return err
	}
	return set.Check(shimProgram(c))
}

// programs opens the programs that a sandbox starts with. The caller closes them, after an
// error too.
func (s *starter) programs(c *statedir.Config) (*using, error) {
	u := new(using)
	var err error
	if u.set, err = programs.Open(s.wolffia, s.dir.Path()); err != nil {
		return u, err
	}
	guest, err := u.set.Program(programs.Guest)
	if err != nil {
		return u, err
	}
	u.guest, u.paths.guest = guest.File, guest.Path
	shim, err := u.set.Program(shimProgram(c))
	if err != nil {
		return u, err
	}
	u.shim = shim.File
	if c.Serves() || c.OverHost() {
		tree, err := u.set.Program(programs.Tree)
		if err != nil {
			return u, err
		}
		u.tree = tree.File
	}
	backend := s.backend(c.Runtime)
	switch {
	case backend.Place != launch.BesideShim && guest.Path == "":
		return u, runtime.Errorf(runtime.ErrUnavailable, "runtime %s needs the program %s as a file, which cannot be made: %w", c.Runtime, programs.Guest, guest.Reason)
	case backend.Place != launch.BesideShim:
		keeper, err := u.set.Program(backend.Keeper)
		if err != nil {
			return u, err
		}
		u.keeper = keeper.File
	case backend.Program != nil:
		u.backend, err = backend.Program(filepath.Dir(s.wolffia))
	}
	return u, err
}

func (u *using) close() {
	if u.set != nil {
		_ = u.set.Close()
	}
	closeAll([]*os.File{u.shim, u.tree, u.guest, u.keeper})
}

// prunePrograms removes the programs that other builds of wolffia have unpacked.
func (s *starter) prunePrograms() error {
	set, err := programs.Open(s.wolffia, s.dir.Path())
	if err != nil {
		return err
	}
	defer set.Close()
	if err := set.Prune(); err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "remove the programs of other builds: %w", err)
	}
	return nil
}
