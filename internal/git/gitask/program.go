// Package gitask makes the program by which git inside asks the tree server for changed paths.
//
// It is a hook of githooks(5), fsmonitor-watchman, version 2.
package gitask

import "wolffia/internal/sys/tinyprogram"

// Name is the name of the program in [launch.GitPath].
const Name = "monitor"

// Program returns the program, for this process's architecture. It writes the file that
// fusefs.AskName names in its working directory, the top of the working tree; before that the
// kernel sends the tree server what is written to a memory mapping. To git any failure means that
// all may have changed; so does another index than that of the directory .git there
// (GIT_INDEX_FILE, GIT_DIR: git sets that too where it has found the directory by a file .git, or
// core.worktree).
func Program() []byte { return tinyprogram.Of(address()) }

// address returns where the code is, in program_*.s.
func address() uintptr
