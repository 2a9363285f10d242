// Package fusefs serves a directory as a FUSE file system in which each name has a level
// ([perm.Level]). A hidden name does not exist, a viewed one cannot be read, a read-only one
// cannot be changed. The rules are evaluated when a name is used, so they hold for files made
// later as well.
//
// It is not a mount helper, and the levels are package perm's decision. One mount serves one
// sandbox, since the kernel caches what the rules of that sandbox allowed.
//
// Mounting and serving are separate, for two processes that may be in different namespaces:
//
//	dev, err := fusemount.Mount("/run/box/tree", nil) // in the process that may mount
//	...                                               // dev is sent over a socket
//	srv, err := fusefs.Serve(ctx, dev, &fusefs.Options{Root: fd, Rules: policy})
//	...
//	srv.Wait()
//
// # Parts
//
// A tree answers the requests (create.go, dir.go, file.go, lookup.go, remove.go, rename.go,
// setattr.go). It has parts, each of which owns its state and locks, and all share the names:
//
//   - names: the nodes, and the ways to what they name (names.go, reach.go, opendir.go); with
//     package backing, which knows descriptors only
//   - levels and gatekeeper: what the rules allow, and the denials
//   - attrs: what is presented, and for how long the kernel may cache it
//   - kernelCache: what the kernel must forget; package device: how
//   - contents: a file gets an inode of its own before it is changed (contents.go, copyinode.go,
//     copyup.go)
//   - watcher: changes by the host; echoes: those that programs inside are to be woken for, with
//     echoTree (package echo)
//   - upperLayer and lowerLayer: the halves of a copied tree
//   - privateGit and gitMonitor: the sandbox's own git directories, and what git asks about the
//     working tree
//   - worktreeGuard: what the sandbox must not make there
//
// # Where an operation is allowed
//
// Package gate: a table has an errno for each operation and level, gate.Check reads it, and
// gatekeeper.allow and gatekeeper.allowName apply it to an object and to a name. Rename has
// conditions of its own, in allowRename, and moves what was judged by them (renamehost.go).
//
// # What the kernel is not asked for
//
// Each was measured, and each would cost more than speed:
//
//   - The writeback cache makes sizes and times the kernel's: the host's changes would not show,
//     and a refusal would reach no program.
//   - Passthrough needs root, and reads and writes would not pass the gate.
//   - Direct I/O costs a message for each open file, and all that is read again has to be fetched
//     again.
//   - FUSE_NOTIFY_STORE overwrites what the sandbox writes meanwhile, and a file that shrinks
//     grows again.
//   - An answer before the data is written lets a program tell the host of a file that is not
//     there yet.
//   - io_uring is off unless root sets a module parameter. A pipe to splice writes is no faster.
//   - A listing without a descriptor for each name is faster by 5 to 8%, but what a process reads
//     for the first time after the host has replaced it would be ESTALE.
//
// # Deadlocks
//
// A process that waits for its own file system waits forever, and with it the kernel objects
// that it holds. Therefore:
//
//   - The process that serves a tree never touches the mount: no stat, no working
//     directory, no program or redirection in it.
//   - It starts no other process. Between fork and exec the child has a copy of the device's
//     descriptor, which keeps clients of a dead server waiting; and a child that needs the
//     tree to start blocks the parent.
//   - The device's descriptor is close-on-exec everywhere: a process with a copy can answer
//     in the server's place.
//   - Only a goroutine that answers no request sends invalidations (invalQueue): the kernel
//     may wait for an answer before it accepts one.
//   - No lock is held during a call that may need the mount. The backing directory cannot
//     lead there: mounts below it are never entered.
//
// # How it works
//
// A node is a (directory, name) pair that the kernel looked up. Objects are opened with
// openat2 by the descriptor of their directory and one name, without following links, never
// by a path. Descriptors are a cache: a closed one is opened again by the same names, and must
// then be of the same inode. Nodes without a name keep their descriptor.
//
// The kernel checks the presented modes, and answers all it can from its own caches: the
// server refuses opening and closing with ENOSYS, so that the kernel does them itself, and
// reading and writing pass the gate. A repeated operation needs no message, except for one
// request for attributes after the first use of an object, which may have changed its access
// time.
//
// The kernel may cache a name for an hour, because the server invalidates it when the host changes
// something (watch.go; package fanotify). Where changes cannot be noticed it is Options.Timeout:
// also on file systems that others than this host change (backing.LocalOnly). In watched directories the
// server holds open what the kernel knows: the kernel opens files without asking, and the host may
// replace one before its first use.
//
// Package device reads the messages, a responder has them answered under a lock by which the rules
// can change. go-fuse decodes and encodes them, but the most frequent ones (direct.go). Large
// READs are answered with pages of the backing file's cache, through a pipe
// (device.Device.Splice). Large files go to the disk while they are written (writeback.go). A
// process that serves should have some more of Go's processors (GOMAXPROCS) than the machine has:
// a thread that returns from the kernel then need not take that of one that waits there, which
// Go's scheduler does only every 20 to 10,000 microseconds.
//
// The server needs Linux 5.8, and /proc in its mount namespace. It notices changes by the host
// from Linux 5.13 on, on file systems that have file handles. Rules change without side
// effects from 6.16 on, and the kernel aborts a stuck server from 6.15 on.
//
// # Private git directories
//
// With Options.Git each name .git that may be written is the sandbox's own (private.go): dirOf
// finds the directory that has it, in a store beside the tree. A node is apart if its inode is
// from there: when rules change sides, what was opened by the former side is hidden, since the
// levels of the other would change it. Another .git is the host's, and read-only whatever the
// rules say about what is in it; names that a file system could take for .git are hidden. So no
// request changes a git directory of the host, or makes one. What the sandbox makes in the working
// tree does not become one by another name (gitguard.go).
//
// A .git of the host that cannot be copied is EACCES, with a denial that has the reason, and is
// not listed. It is copied again after retryAfter. The errors passing are returned as they are.
// The host's .git is never shown in its place.
//
// Beside the differences below: a rename of a directory, or a link, between a private git
// directory and the working tree is EXDEV. What happens in a private .git changes neither times
// nor links of its directory. A directory that the sandbox has removed while the host has a .git
// in it (removeddirs.go) can be made again, but neither a rename nor a file can take its place:
// ENOTEMPTY, EEXIST. If another sandbox, or the host, renames a directory, the private .git stays
// with its former path.
//
// # Copied trees
//
// With Options.Copy changes go to an upper layer, in the format of package cow. A node then has
// layers (layers.go, upperlayer.go, lower.go): where its object is, and for a directory the path
// of its lower half. A directory is opened as an openDir (opendir.go), which finds a name in one
// of the halves. Before a change, contents has a file in the upper layer (copyup.go,
// placecopy.go), needUpper a directory (upper.go). whiteout.go removes names, renameupper.go
// renames, mergedlist.go lists and hostchange.go follows the host. The host's objects are never
// opened for writing.
//
// # Differences from a local file system
//
// Another mount below the root is EACCES. Two names of one file are two inodes with one inode
// number: a shared memory mapping of one does not show what is written by the other. There are
// no extended attributes, devices, set-id bits and files without a name (O_TMPFILE). All
// objects belong to one owner. Locks are among the users of the mount only.
package fusefs
