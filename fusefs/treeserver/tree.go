// Package treeserver is the process that serves a sandbox's filtered tree, in the
// host's namespaces, as the user.
package treeserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/fusefs"
	"wolffia/fusefs/audit"
	"wolffia/fusefs/cow"
	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/step"
)

// Settings of the garbage collector (GOGC): in the first second, in which a tree is often used for
// the first time, it does not run before 16 MB are in use; later the garbage of requests would
// outweigh the live nodes.
const firstGarbage, leastGarbage = 400, 50

// Main serves the filtered codebase until the shim ends or the tree is unmounted. It starts no
// other process.
func Main() error {
	if err := boot.Init("wolffia-tree"); err != nil {
		return err
	}
	control := os.NewFile(boot.FDControl, "control")
	b, err := boot.ReadTree()
	if err != nil {
		return err
	}
	if err := serveTree(b, control); err != nil {
		_ = boot.SendServing(control, err)
		return err
	}
	return nil
}

// systemTimeout is longer than a host is up.
const systemTimeout = 100 * 365 * 24 * time.Hour

func serveTree(b *boot.TreeParams, control *os.File) error {
	step.Reached("begun")
	debug.SetGCPercent(firstGarbage)
	if b.RootTree {
		if err := keepFileAccess(); err != nil {
			return err
		}
	}
	memory := treeMemory(b.Memory)
	if memory > 0 {
		debug.SetMemoryLimit(memory)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	t := &treeServer{boot: b, control: control, audit: audit.NewLog(statedir.Audit(b.Run), log), codebase: b.Codebase, pooled: b.Pooled}
	root := -1
	var layer *copied
	var err error
	if !b.Blank {
		policy, err := compile(b.Rules)
		if err != nil {
			return err
		}
		if root, err = openCodebase(b.Codebase); err != nil {
			return err
		}
		if t.served, err = boot.DirOf(root); err != nil {
			return err
		}
		if layer, err = openCopied(b, root); err != nil {
			return err
		}
		t.policy.Store(policy)
	}
	own, err := openPrivate(b.Run, b.Codebase, b.MountPoint, b.Git, layer != nil)
	if err != nil {
		return err
	}
	defer own.CloseDirs()
	if layer != nil {
		t.root, t.copied, t.git = root, layer, own
		if err := t.layers().Compact(); err != nil { // the changes are as they were, and a start gives the user a way to them
			log.Warn("compact the upper layer", "error", err)
		}
	}
	finish := sync.OnceFunc(func() {
		t.audit.Close(boot.AuditLimit)
		// The kernel takes up to 20 ms to close the fanotify group, since it waits for an
		// RCU grace period. Unlock before: only the end of the process remains.
		if layer == nil { // else a request in progress may write to the upper layer until the end
			_ = unix.Close(boot.FDLock)
		}
	})
	defer finish()
	unix.Umask(0) // the kernel has applied the umask of the sandbox's process
	if b.Review {
		return t.onlyReview()
	}
	device, err := boot.ReceiveFile(control, "the mount", "the shim")
	if err != nil {
		return err
	}
	step.Reached("mount received")
	serve := fusefs.Serve
	if b.Blank {
		serve = fusefs.ServeEmpty
	}
	serving := make(chan struct{}) // the shim takes the first packet for the answer to its start
	opts := &fusefs.Options{
		Root: root, Rules: t.policy.Load(), Copy: layer.options(),
		Git: gitOptions(own, b.Git.Minimal), Unguarded: b.Git.Unguarded, Chown: b.Root,
		MoveTemps: cow.MoveTemps(filepath.Base(filepath.Dir(b.Run))),
		Owner:     treeOwner(b),
		Quota:     b.Disk,
		Memory:    memory,
		Logger:    log,
		Denied:    t.denied,
		Ask:       t.asks(serving),
		OnSequentialLookup: func() {
			<-serving
			t.send(&boot.TreeReply{SequentialLookup: true})
		},
		OnHostChange: func() bool {
			<-serving
			return boot.SendPacket(t.control, &boot.TreeReply{HostChanged: true}, nil) == nil
		},
	}
	if b.System { // no client asks for its changes
		opts.HostModes, opts.Unguarded = true, true
		// An overlay above fails with ESTALE for a name whose file was replaced: what was used once stays.
		opts.NoWatch, opts.Timeout = true, systemTimeout
		opts.Denied, opts.OnSequentialLookup, opts.OnHostChange = nil, nil, nil
	}
	t.server, err = serve(context.Background(), device, opts)
	if err != nil {
		return fmt.Errorf("serve the tree: %w", err)
	}
	if layer == nil && root >= 0 {
		_ = unix.Close(root)
	}
	if b.Blank {
		t.expected = expect(b.Rules)
	}
	if b.Pooled {
		boot.Threads(boot.Waiting)
	}
	if err := boot.SendServing(control, nil); err != nil {
		return fmt.Errorf("report to the shim: %w", err)
	}
	close(serving)
	step.Reached("serving")
	if !b.Blank {
		t.used()
	}
	go func() {
		t.serve() // ends when the shim does, or the mount
		step.Reached("shim gone")
		t.ending.Store(true)
		t.questions.end()
		t.reviews.Wait() // they stop where nothing temporary is left on the host
		finish()
		// The end of the shim's namespace unmounts the tree, and closing the descriptor
		// aborts requests that wait.
		os.Exit(0)
	}()
	t.server.Wait()
	_ = unix.Shutdown(boot.FDControl, unix.SHUT_RD)
	select {} // until the goroutine above ends the process
}

// used begins the time in which the tree has a user, or is listed for one.
func (t *treeServer) used() {
	time.AfterFunc(time.Second, func() {
		debug.SetGCPercent(leastGarbage)
		if t.boot.Pooled && !t.boot.Blank { // it has listed its tree, and sleeps: 4 of 16 MB for 12,800 names
			debug.FreeOSMemory()
		}
	})
}

// openCodebase opens a codebase, which the caller closes.
func openCodebase(path string) (fd int, err error) {
	fd, err = unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("codebase %s: %w", path, err)
	}
	return fd, nil
}

// onlyReview answers requests without serving a tree, until the caller hangs up.
func (t *treeServer) onlyReview() error {
	if t.copied == nil {
		return errors.New("the sandbox has no copied codebase")
	}
	if err := boot.SendServing(t.control, nil); err != nil {
		return fmt.Errorf("report to the caller: %w", err)
	}
	t.serve()
	t.reviews.Wait() // reviews that have begun end first
	return nil
}

// treeMemory returns how many bytes the tree server may take of a sandbox's limit on memory, which
// includes it; 0 without a limit.
func treeMemory(limit int64) int64 {
	const least = 16 << 20 // enough for Go's runtime and the rules
	if limit == 0 {
		return 0
	}
	return max(limit/4, least)
}

// treeOwner returns the presented owner, in the user namespace in which the tree was mounted: the
// only id of the shim's namespace, or the host's.
func treeOwner(b *boot.TreeParams) fusefs.Owner {
	if b.HostIDs {
		return fusefs.Owner{UID: uint32(b.UID), GID: uint32(b.GID)}
	}
	return fusefs.Owner{}
}

// keepFileAccess drops all capabilities but those that override permissions and ownership of files
// (capabilities(7)), for a codebase that belongs to root.
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
