// Package session runs persistent shell sessions inside a sandbox, as a part of PID 1.
//
// The guest is the person at the prompt of an interactive shell. Descriptor 0
// of the shell is one end of a SOCK_SEQPACKET pair, 1 and 2 are a terminal.
// A command is a file that the shell's main loop sources, with its standard
// streams on named pipes; then the shell prints status and directory on the
// socket, with a random word that no process could know before. D is the session's
// directory, I, O and E are random names, other ones for each command:
//
//	D/c            the command's text
//	D/I D/O D/E    its streams, FIFOs
//	D/s            "return N": the last status
//
//	\. D/c <D/I >|D/O 2>|D/E                                          packet A
//	\builtin printf '\000%s %s %s\000' NONCE "$?" "${PWD-}" >&0; \
//	    PS1= PS2= PS0= PROMPT_COMMAND= TMOUT=                         packet B
//
// Since the shell is interactive, an error or an interrupt returns to the prompt instead of ending
// it; since the text is sourced, nothing in it can reach the lines after it. Packets are the unit
// in which a shell discards input; so text that must survive an error is a packet of its own.
//
// The pipes of a command's output are open at both ends in the guest, from one command to the
// next. When the report has arrived the guest closes its own writing end; an end of file then says
// that no process holds another one.
//
// When a command's time is over, a trap on a real-time signal makes the shell leave the text as
// soon as the program in the foreground has ended, however that ends: by a SIGINT of its own, with
// the trap that the user may have on it put aside. A shell that may continue in spite of that is
// stopped until it is killed, see ignoresSignals and trapsGuard.
//
// Everything in the session's directory, and all output of the shell, is hostile input. All
// processes of a sandbox are one user, and cannot be protected from each other by permissions.
// But:
//
//   - No name can be guessed or listed but that of the text, which cannot be opened
//     to write. A process that has changed its mode first gets at most that the
//     command has no status (wasReplaced).
//   - A report counts if the kernel says that the shell has sent it, and the shell is
//     at its prompt.
//   - A file that was removed is made anew, and a text that may have been read is not run again.
//
// A command can do to its own shell what it likes, its results included; what a session is
// evidence of is in docs/sessions.md, and why a session is a shell that PID 1 types into in
// docs/decisions/10-sessions.md. Each call gets an answer whatever happens.
//
// A session's states and events form a state machine: see machine.go, and run.go for one text in
// the shell. A Session's parts are the shell (shellProcess), its connections (endpoints), the
// processes that it has started (processes), the text in it (run), the state for the next shell
// (checkpoint), detached commands (operations), and the shells for persons (terminals). All these
// belong to the goroutine that has the turn (executor). The goroutine that brings an event handles
// it, unless another goroutine has the turn. A goroutine waits for the session's descriptors
// through the runtime's poller: waiting costs no thread, and the threads of PID 1 are numbered
// (see guest.Guard).
package session
