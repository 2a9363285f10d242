// Package guest is PID 1 of a sandbox. It starts processes, owns their pipes and
// terminals, reaps what dies, and speaks the frames of package wire on its standard input
// and output.
//
// It runs inside the isolation, beside hostile programs of the same user, and defends itself
// against them ([Harden]): it is not dumpable, so nothing inside can read its memory or its
// descriptors or trace it, and a seccomp filter that every process inherits refuses to signal,
// limit or reprioritise PID 1 and its threads, or to have the kernel signal them. The host, in
// turn, trusts nothing that comes out.
//
// Hazards:
//   - Nothing but the reaper may wait for children: no exec.Cmd, no
//     os.StartProcess.
//   - The goroutine that reads frames must never wait for a process, a pipe
//     or a lock that is held over one; else nothing can be killed any more.
//   - Signals are caught and dropped, not ignored: what PID 1 ignores, its
//     children would ignore too.
package guest
