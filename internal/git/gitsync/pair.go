package gitsync

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrBusy is the error of a sync that changed nothing because git, or another sync, is running in
// the repository. The next sync tries again.
var ErrBusy = errors.New("nothing was taken over; the next sync tries again")

// An Inside runs programs in the sandbox. It is used by one sync at a time.
type Inside interface {
	// Run runs args inside, in the directory of the repository's working tree, with in as
	// standard input (nil: empty), copies its standard output to out, and returns after its
	// end. Its standard error is not needed. It ends the program if ctx ends, or if out
	// returns an error, and then returns an error. status is the exit status; the error
	// is the reason why no status is known. What it prints is hostile: the caller bounds it.
	Run(ctx context.Context, args []string, in io.Reader, out io.Writer) (status int, err error)
}

// A Pair is one repository on both sides. Its methods may be called at the same time, also by
// several processes: a lock on the host's repository lets one sync after the other work.
type Pair struct {
	// Host is the absolute path of the git directory on the host; for a linked working tree
	// its own one, in which the file commondir names the repository's.
	Host string
	// Worktree is the top of the working tree on the host; "" for a bare repository.
	Worktree string
	// Private is the sandbox's copy, as a directory on the host. Its content is hostile: it is
	// opened beneath, and no link is followed.
	Private string
	// Store, if it is not "", is a directory above Private: below it no link is followed.
	Store string
	// Common is, for a linked working tree that the sandbox sees as one, the copy in which its
	// references are; "" is Private. What belongs to the repository alone (configuration,
	// stashes) is then left to the pair of the repository.
	Common string
	// Others are the other working trees of the repository that have pairs of their own. The
	// branches that they have checked out are left to those.
	Others []Other
	// State is a directory for the base tables and the journal; Begin makes it.
	State string
	// Dir is the repository's working tree as the sandbox sees it: messages name it. Inside
	// runs programs there.
	Dir string
	// Name is the sandbox's, for refs/heads/wolffia/NAME/ and reflogs.
	Name string
	// Inside runs git in the sandbox.
	Inside Inside
	// Hidden reports whether the rules hide a path of the working tree, which is relative to
	// its top; nil hides none.
	Hidden func(path string) bool
	// Filter returns what the sandbox gets of a file of the host's git directory (config,
	// info/exclude, hooks/NAME, ...), as in the private copy when it was made; nil is all of it.
	Filter func(name string, content []byte) []byte

	// Limits of tests; 0 is the product's.
	names int
	bytes int64
	time  time.Duration
	wait  time.Duration
	at    func(failpoint string)
}

// An Other is another working tree of a Pair's repository: its own git directory on both sides.
type Other struct{ Host, Private string }

// A Report is what one sync did.
type Report struct {
	// Moved is whether something crossed, in either direction.
	Moved bool
	// Said has lines for the user about completed changes, without the prefix "wolffia: ".
	Said []string
	// Stays has lines about what stays on its side. They come again with each sync while that
	// holds.
	Stays []string
	// Pending is the reason why data stays inside that would be lost with the sandbox: an
	// operation in progress, refused objects, a failure. "" means no such data. A branch that went
	// aside is not pending: the host has its commits.
	Pending string
}
