// Package shell runs persistent shell sessions inside a sandbox. It is a part
// of PID 1.
//
// The guest is the person at the prompt of an interactive shell. Descriptor 0
// of the shell is one end of a SOCK_SEQPACKET pair, 1 and 2 are a terminal.
// A command is a file that the shell's main loop sources, with its standard
// streams on named pipes; then the shell prints status and directory on the
// socket, with a random word that nobody could know before:
//
//	D/c   the command's text           D/i D/o D/e   its streams, FIFOs
//	D/s   "return N": the last status  D/x D/w       state at exit: how, and a FIFO for it
//
//	\. D/c <D/i >|D/o 2>|D/e                                          packet A
//	\builtin printf '\000%s %s %s\000' NONCE "$?" "${PWD-}" >&0       packet B
//	PS1= PS2= PS0= PROMPT_COMMAND= TMOUT=                             packet C
//
// Since the shell is interactive, an error or an interrupt returns to the
// prompt instead of ending it; since the text is sourced, nothing in it can
// reach the lines after it. Packets are the unit in which a shell throws
// input away; so what must survive an error is a packet of its own.
//
// The pipes of a command's output are open at both ends in the guest, from one
// command to the next; when the report is here the guest closes its own end to
// write to, and then an end of file says that nobody holds the other one.
//
// When a command's time is over, a trap on a real-time signal has bash leave the
// text as soon as the program in the foreground has ended, however that ends;
// dash and ash do so with a SIGINT of their own that waits.
//
// Everything in the session's directory, and all that the shell says, is
// hostile input. A session can be harmed by what runs in it, its own results
// included; but each call gets an answer, and no other session is touched.
//
// A Session's state belongs to whoever has the turn: the goroutine that brings
// an event does what it asks for, unless another is at work. One waits for its
// descriptors through the runtime's poller: waiting costs no thread, and the
// threads of PID 1 are numbered (see guest.Harden).
package shell
