// Package treeserver is the process that serves a sandbox's filtered tree, in the
// host's namespaces, as the user.
package treeserver

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	goruntime "runtime"
	"runtime/debug"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/fusefs"
	"wolffia/fusefs/audit"
	"wolffia/internal/boot"
	"wolffia/internal/statedir"
	"wolffia/internal/step"
	"wolffia/perm"
)

// Main is the tree server's main: it serves the filtered codebase until the
// shim is gone or the mount is. It never starts another process.
func Main() error {
	if err := boot.Init("wolffia-tree"); err != nil {
		return err
	}
	control := os.NewFile(boot.FDControl, "control")
	b, err := boot.Read()
	if err != nil {
		return err
	}
	if err := serveTree(b, control); err != nil {
		_ = boot.SendServing(control, err)
		return err
	}
	return nil
}

func serveTree(b *boot.Params, control *os.File) error {
	step.Reached("begun")
	goruntime.GOMAXPROCS(goruntime.NumCPU() + fusefs.Readers)
	debug.SetGCPercent(50) // what is kept for each name is small beside what answering takes
	if b.Config.RootTree {
		if err := keepFileAccess(); err != nil {
			return err
		}
	}
	memory := treeMemory(b.Config.Resources.Memory)
	if memory > 0 {
		debug.SetMemoryLimit(memory)
	}
	policy, err := perm.Compile(b.Config.Permissions)
	if err != nil {
		return err
	}
	root, err := unix.Open(b.Config.CodebasePath, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("codebase %s: %w", b.Config.CodebasePath, err)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	t := &treeServer{boot: b, control: control, audit: audit.NewLog(statedir.Audit(b.Run), log)}
	t.policy.Store(policy)
	over := sync.OnceFunc(func() {
		t.audit.Close(boot.AuditLimit)
		// The kernel takes up to 20 ms to close the descriptor that watches
		// directories, since it waits for an RCU grace period. Nobody has to wait
		// for that: from here on there is nothing to do but to end.
		_ = unix.Close(boot.FDLock)
	})
	defer over()
	unix.Umask(0) // modes are as the sandbox asked; its own umask is applied by the kernel
	device, err := boot.ReceiveDevice(control)
	if err != nil {
		return err
	}
	step.Reached("mount received")
	t.server, err = fusefs.Serve(context.Background(), device, &fusefs.Options{
		Root: root, Rules: policy,
		Owner:  treeOwner(b),
		Shown:  b.Config.MountPointOrDefault(),
		Quota:  b.Config.Resources.Disk,
		Memory: memory,
		Logger: log,
		Denied: t.denied,
	})
	if err != nil {
		return fmt.Errorf("serve the tree: %w", err)
	}
	_ = unix.Close(root)
	if err := boot.SendServing(control, nil); err != nil {
		return fmt.Errorf("tell the shim: %w", err)
	}
	step.Reached("serving")
	go func() {
		t.serve() // ends when the shim does
		step.Reached("shim gone")
		over()
		// The mount is gone with the shim's namespace, or will be: closing the
		// descriptor aborts what is still waiting.
		os.Exit(0)
	}()
	t.server.Wait()
	return nil
}

// treeMemory is how many bytes the tree server of a sandbox with a limit of memory
// should take, which counts there; 0 if there is no limit.
func treeMemory(limit int64) int64 {
	const least = 16 << 20 // what Go and the rules take, and a little
	if limit == 0 {
		return 0
	}
	return max(limit/4, least)
}

// treeOwner is whom everything in the tree belongs to, in the user namespace in
// which it was mounted: the one id there is in the shim's, or the host's.
func treeOwner(b *boot.Params) fusefs.Owner {
	if b.Engine != "" {
		return fusefs.Owner{UID: uint32(b.Config.UID), GID: uint32(b.Config.GID)}
	}
	return fusefs.Owner{}
}

// keepFileAccess drops everything that root can do but reach files, for the
// codebase that is root's own: the only capabilities left are those that
// override permissions and ownership of files (capabilities(7)).
func keepFileAccess() error {
	const keep = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if keep&(1<<c) != 0 {
			continue
		}
		// All threads, since capabilities are per thread.
		if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0); errno != 0 && errno != unix.EINVAL {
			return fmt.Errorf("drop capability %d from the bounding set: %w", c, errno)
		}
	}
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("prctl PR_SET_NO_NEW_PRIVS: %w", errno)
	}
	return capset(keep)
}
