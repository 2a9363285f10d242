// Package fusefs serves a directory as a file system in which each name has a
// level: what is hidden is not there, what may only be viewed cannot be read,
// and what may only be read cannot be changed. The rules are asked about
// names as they are used, so that they hold for files made later as well.
//
// It is not a mount helper, and it does not decide anything itself: package
// perm does. One mount serves one sandbox, since the kernel's caches hold what
// the rules of that sandbox allowed.
//
// Mounting and serving are apart, for two processes that may be in different
// namespaces:
//
//	dev, err := fusefs.Mount("/run/box/tree", nil) // the one that may mount
//	...                                            // dev is sent over a socket
//	srv, err := fusefs.Serve(ctx, dev, &fusefs.Options{Root: fd, Rules: policy})
//	...
//	srv.Wait()
//
// # Deadlocks
//
// A process that waits for its own file system waits for ever, and with it
// the kernel objects it holds. Therefore:
//
//   - The process that serves a tree never touches the mount: no stat, no
//     working directory, no program or redirection that lies in it.
//   - It starts no other process. Between fork and exec the child holds a
//     copy of the device's descriptor, which keeps a dead server's clients
//     waiting; and a child that needs the tree to start stops the parent.
//   - The device's descriptor is close-on-exec everywhere: who has a copy can
//     answer in the server's place.
//   - The kernel is told that something changed only by a goroutine that
//     answers no request (notes): it may want an answer first.
//   - No lock is held over a call that may need the mount. The backing
//     directory cannot lead there: other mounts below it are never entered.
//
// # How it works
//
// A node is a (parent, name) pair that the kernel looked up. Objects are
// reached by the descriptor of their directory and one name, with openat2 and
// without following links, never by a path. Descriptors are a cache: one that
// was closed is opened again by the same names, and must then be of the same
// inode. Nodes that lost their name keep their descriptor.
//
// All operations pass one gate, a table of operation and level; see gate.go.
// The kernel checks the presented modes, and answers all it can from its own
// caches: opening and closing are refused with ENOSYS, so that it does them
// by itself, and reading and writing are checked here again. What was done
// before is done again without a message, but for one question after an
// object's first use, which may have changed its time of access.
//
// The kernel may believe a name for a minute, because it is told when the host
// changes something: see watch.go. Where that cannot be noticed, it is
// Options.Timeout. In watched directories what the kernel knows is held open,
// since it opens files without asking, and the host may replace one before it
// is first used.
//
// go-fuse knows the messages; they are read, answered and timed by a loop of
// our own (device.go), under a lock by which the rules can change. Whoever
// serves should give the process more GOMAXPROCS: see Readers.
//
// Linux 5.8 is needed, and /proc, in the namespace of the server. Changes are
// noticed from Linux 5.13 on, on file systems that have file handles; rules
// change without side effects from 6.16 on; a server that is stuck is given up
// from 6.15 on.
//
// # What is different from a local file system
//
// Another mount below the root is not entered: EACCES. Two names of one file
// are two inodes with one inode number, so that a shared memory mapping of
// one does not show what is written by the other. There are no extended
// attributes, devices, set-id bits and files without a name (O_TMPFILE). All
// belongs to one owner. Locks hold among the users of the mount only.
package fusefs
