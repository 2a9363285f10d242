package treeserver

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/sys/step"
	"wolffia/perm"
	"wolffia/runtime"
)

// attach serves the directory path by the rules in the file, for the claimant of the pooled
// sandbox. If it serves a codebase already, that must be this one, by the same rules.
func (t *treeServer) attach(path string, git boot.TreeGit, file *os.File) error {
	var err error
	if t.boot.Blank {
		err = t.fill(path, git, file)
	} else {
		err = t.confirm(path, file)
	}
	if err != nil {
		return err
	}
	t.codebase, t.pooled = path, false
	step.Reached("adopted")
	return nil
}

// warmUp is attach without an effect.
func (t *treeServer) warmUp(path string, file *os.File) error {
	if !t.boot.Blank {
		_ = t.confirm(path, file) // the shim has no rules to ask for
		return nil
	}
	root, policy, err := t.openRequest(path, file)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	return t.server.WarmUp(root, policy)
}

// fill attaches the directory path to the empty tree, by the rules in the file.
func (t *treeServer) fill(path string, g boot.TreeGit, file *os.File) error {
	root, policy, err := t.openRequest(path, file)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	t.expected = nil
	served, err := boot.DirOf(root)
	if err != nil {
		return err
	}
	own, err := openPrivate(t.boot.Run, path, t.boot.MountPoint, g, false)
	if err != nil {
		return err
	}
	defer own.CloseDirs()
	if err := t.server.Attach(root, policy, gitOptions(own, g.Minimal), g.Unguarded); err != nil {
		return fmt.Errorf("serve the tree: %w", err)
	}
	t.served = served
	t.policy.Store(policy)
	t.used()
	return nil
}

// openRequest opens the directory path and compiles the rules in the file. The caller closes root.
func (t *treeServer) openRequest(path string, file *os.File) (root int, policy *perm.Policy, err error) {
	text, err := boot.RulesText(file)
	if err != nil {
		return -1, nil, err
	}
	if policy, err = t.expected.compile(text); err != nil {
		return -1, nil, err
	}
	root, err = openCodebase(path)
	return root, policy, err
}

// confirm checks that the tree serves the directory that is at path now, by the rules in the file.
func (t *treeServer) confirm(path string, file *os.File) error {
	text, err := boot.RulesText(file)
	if err != nil {
		return err
	}
	if boot.DirAt(path) != t.served || !bytes.Equal(text, t.boot.Rules) {
		return runtime.Errorf(runtime.ErrConflict, "the pooled sandbox was started for another codebase than the one that is %s now, or for other rules", path)
	}
	return nil
}
