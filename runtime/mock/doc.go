// Package mock is a sandbox runtime in memory, for tests of code that uses a
// runtime.
//
// IT ISOLATES NOTHING. Commands run as plain processes of the host, as the
// user who runs the test, with all of the host's files in reach; permission
// rules are checked and then ignored. Never give it a command that you would
// not run yourself.
//
// In all else it is a runtime: it passes runtimetest, but for the features
// Isolation, Filter, LiveRules, Terminal, Mounts, Rootfs, Image and Disk; it has no
// sessions. The working directory of a
// command is the codebase itself, or a temporary directory if there is none;
// its HOME is a temporary directory.
//
//	rt := mock.New()
//	rt.FailNext(mock.OpStart, runtime.Errorf(runtime.ErrUnavailable, "no more"))
//	rt.SetHandler(func(s *runtime.Sandbox, spec *runtime.Command) (*runtime.Result, error) {
//		return &runtime.Result{Stdout: []byte("scripted\n"), ExitCode: 3}, nil
//	})
//
// Directories and processes last until their sandbox is stopped or destroyed:
// a test destroys what it has created.
package mock
