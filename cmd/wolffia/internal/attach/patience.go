package attach

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A verdict is what happens to a signal that arrives while a command runs.
type verdict int

const (
	ignored      verdict = iota
	passed               // the command gets it
	warned               // the command gets it, and the next one ends us
	givenUp              // the command is ended as if we were gone, and we wait for that
	shuttingDown         // we end at once, and the sandbox ends the command
)

const (
	// sameEvent is how long a second SIGTERM or SIGHUP counts as the first: timeout(1)
	// sends two, and so do a shell and the kernel when a terminal is closed.
	sameEvent = time.Second
	// impatient is the time within which the third SIGINT means us: a person reads what the
	// second one prints.
	impatient = 5 * time.Second
	// giveUpLimit is how long what was given up may take to end: the guest takes 2.5 s,
	// on a host that lets it run.
	giveUpLimit = 10 * time.Second
)

// A patience decides what becomes of signals while a command runs. The rest of a
// session's text must not run when its caller has to end, whatever the program in
// the foreground does with a signal; any other program is the whole command, and gets
// the signal itself.
type patience struct {
	session bool // the command is a text in a session
	started bool // there is a command to pass signals to
	gaveUp  bool
	first   time.Time    // when the first SIGTERM or SIGHUP came; zero: none has
	presses [2]time.Time // when the last SIGINTs came, the older one first
}

// decide says what becomes of a signal that has come now.
func (p *patience) decide(sig syscall.Signal, now time.Time) verdict {
	switch sig {
	case unix.SIGTERM, unix.SIGHUP:
		before := p.first
		switch {
		case before.IsZero() && !p.gaveUp:
			p.first = now
			if !p.session && p.started {
				return passed
			}
		case before.IsZero(), now.Sub(before) >= sameEvent:
			return shuttingDown
		case p.gaveUp:
			return ignored
		default:
			return passed
		}
	case unix.SIGINT:
		older := p.presses[0]
		p.presses = [2]time.Time{p.presses[1], now}
		switch {
		case p.gaveUp, !older.IsZero() && now.Sub(older) < impatient:
			return shuttingDown
		case p.started && !p.presses[0].IsZero() && now.Sub(p.presses[0]) < impatient:
			return warned
		case p.started:
			return passed
		}
	case unix.SIGQUIT:
		switch {
		case p.gaveUp:
			return shuttingDown
		case p.started:
			return passed
		}
	default:
		return passed
	}
	p.gaveUp = true
	return givenUp
}
