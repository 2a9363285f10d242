package runtime

import (
	"context"
	"encoding/json"
	"io"
	"time"
	"unicode/utf8"

	"wolffia/perm"
)

// A Workspace is a Runtime whose sandboxes have a codebase: by rules, which can change, with git
// directories of their own, which are the same as the host's again after each command, or copied.
// What a sandbox changes in a copy is kept beside the host's directory until it is applied or
// discarded. The methods from Changes on work on a sandbox that runs and on one that does not; a
// sandbox that works on the host's directory itself is [ErrInvalid]. Changes, Diff and Apply are
// [ErrConflict] while it runs and its codebase is no longer the directory that it was at the
// start.
//
// A path in a list of paths selects what is at and below it. It is relative to the codebase. An
// empty list selects all; a path without a change is [ErrNotFound].
type Workspace interface {
	// SetPermissions replaces and records all rules of a sandbox. They are in force when it
	// returns if the sandbox runs, else from the next start. Invalid rules and a sandbox
	// without a codebase are [ErrInvalid] and change nothing; [ErrConflict]: it runs, and its
	// codebase was moved or replaced since its start. With any other error either
	// the old rules are recorded and in force, or the new ones are recorded and the error
	// says that it is unknown whether they are in force. Calls for one sandbox are
	// serialized. Once a change has begun, canceling ctx does not stop it.
	SetPermissions(ctx context.Context, sandboxID string, rules []perm.Rule) error

	// WatchDenials returns a function that returns what was denied in a sandbox since this call,
	// as of [ExecResult].Denied; nil: nothing, or it is not known.
	WatchDenials(sandboxID string) func(context.Context) *Denials

	// SyncGit brings the repositories of a sandbox and of the host to the same state, as far as
	// neither loses something by it: what each command does when it ends. Of a sandbox that does
	// not run, or has no git directories of its own, it only says what is pending. It may be
	// called at the same time as others, in any process. Its error is one of the sandbox; a
	// repository that cannot be synchronised is pending.
	SyncGit(ctx context.Context, sandboxID string) (*GitReport, error)

	// Changes returns the changes of a sandbox, sorted by path.
	Changes(ctx context.Context, sandboxID string, o ChangesOptions) ([]Change, error)

	// Diff writes changes as a unified diff that git and patch(1) read, against what the host has
	// now. Names and content in it are the sandbox's: names are quoted as git does, content is
	// not, so that a terminal needs a filter for control characters.
	Diff(ctx context.Context, sandboxID string, o DiffOptions, w io.Writer) error

	// Apply makes changes in the host's directory, by the rules that are recorded for the sandbox
	// now. If one of those selected is in conflict ([ErrConflict]) or not allowed ([ErrDenied]),
	// it changes nothing; see also [ApplyOptions]. Each path is changed at once or not at all. An
	// error in the midst, or the end of ctx, leaves the rest for another call. The result is nil
	// only if nothing is known of the changes.
	Apply(ctx context.Context, sandboxID string, o ApplyOptions) (*ApplyResult, error)

	// Discard takes changes back in the sandbox, which then has what the host has, and returns how
	// many. A program inside that has a discarded file open keeps it, without a name.
	Discard(ctx context.Context, sandboxID string, paths []string) (int, error)

	// Fork makes sandboxes with the same configuration and changes, and does not start them. The
	// changes are those of one moment. They have neither the published ports nor the labels that
	// begin with "wolffia.". If it fails it leaves none.
	Fork(ctx context.Context, sandboxID string, o ForkOptions) ([]*Sandbox, error)

	// Snapshot keeps a copy of the changes of one moment. A name that is taken is [ErrExists].
	Snapshot(ctx context.Context, sandboxID, name string, o SnapshotOptions) (*Snapshot, error)

	// Snapshots returns the snapshots of a sandbox, oldest first.
	Snapshots(ctx context.Context, sandboxID string) ([]Snapshot, error)

	// Restore replaces the changes of a sandbox by those of a snapshot, which is kept. A sandbox
	// that runs is [ErrConflict]. If the snapshot has memory, the next Start restores it.
	Restore(ctx context.Context, sandboxID, name string) error

	// RemoveSnapshot deletes a snapshot.
	RemoveSnapshot(ctx context.Context, sandboxID, name string) error
}

// ChangesOptions are options of Workspace.Changes.
type ChangesOptions struct {
	Paths []string
	// Lines has Change.Added, Deleted and Binary filled in, for which all content is compared.
	Lines bool
}

// DiffOptions are options of Workspace.Diff.
type DiffOptions struct {
	Paths []string
}

// ApplyOptions are options of Workspace.Apply.
type ApplyOptions struct {
	Paths  []string
	DryRun bool // change nothing, and return what would be done
	// Hunks are changes of which only a part is applied; the rest stays a change of the sandbox. With
	// Hunks and without Paths nothing else is applied.
	Hunks []Hunks
	// Force overwrites what is in conflict, and leaves out what is not allowed. It never deletes
	// what was not there when the sandbox deleted its directory.
	Force bool
}

// Hunks are some hunks of the change of a text file that both the sandbox and the host have.
type Hunks struct {
	Path string
	// Digest is the SHA-256, in hexadecimal, of what Diff writes for Path. If that has become
	// another text, Apply is [ErrConflict] and changes nothing.
	Digest string
	Only   []int // the hunks of that text, from 0 on
}

// An ApplyResult is what Workspace.Apply did. Both lists are sorted by path.
type ApplyResult struct {
	Applied []Change // with DryRun what would be
	// Left are those of the selected changes that were not applied. Change.Conflict, Denied or
	// Unapplied says why; else it is not done because of another, or was not reached.
	Left []Change
}

// A ChangeKind says what a change does.
type ChangeKind string

// The kinds of change.
const (
	ChangeAdded    ChangeKind = "added"
	ChangeModified ChangeKind = "modified" // content, and maybe the mode
	ChangeDeleted  ChangeKind = "deleted"
	ChangeRenamed  ChangeKind = "renamed" // a directory of the host's, with all in it
	ChangeType     ChangeKind = "type"    // such as a file that became a symbolic link
	ChangeMode     ChangeKind = "mode"    // only the permissions
)

// A FileType is the type of what a change is about; for a deletion of what the host had.
type FileType string

// The types.
const (
	TypeFile      FileType = "file"
	TypeDirectory FileType = "directory"
	TypeSymlink   FileType = "symlink"
	TypeOther     FileType = "other" // a FIFO or socket, which is never applied
)

// A Change is one difference between a copied codebase and the host's directory. Of what the rules
// hide now, it tells nothing that the host has.
type Change struct {
	// Path is relative to the codebase: arbitrary bytes chosen by the sandbox, to be quoted
	// before they are shown. In JSON, path64 has a path that is not UTF-8; so for From.
	Path string     `json:"path"`
	From string     `json:"from,omitempty"` // the host's path of what is renamed
	Kind ChangeKind `json:"kind"`
	Type FileType   `json:"type"`

	// permissions, 0777, and 01000 of a directory; 0 for what is added
	OldMode uint32 `json:"oldMode,omitempty"`
	NewMode uint32 `json:"newMode,omitempty"` // 0 for what is deleted
	Size    int64  `json:"size,omitempty"`    // of the new content, in bytes

	// Conflict says why the host's object is not what the sandbox started from; empty if it is.
	Conflict string `json:"conflict,omitempty"`
	// Denied says why the rules do not allow the change on the host; empty if they do.
	Denied string `json:"denied,omitempty"`
	// Unapplied says why Apply leaves the change out in any case, such as a git repository's own
	// files; empty if it does not.
	Unapplied string `json:"unapplied,omitempty"`

	Added   int  `json:"added,omitempty"`   // lines, if they were asked for
	Deleted int  `json:"deleted,omitempty"` // lines, if they were asked for
	Binary  bool `json:"binary,omitempty"`  // not text, if lines were asked for
}

type plainChange Change

// jsonChange is a Change in JSON.
type jsonChange struct {
	plainChange
	Path64 []byte `json:"path64,omitempty"`
	From64 []byte `json:"from64,omitempty"`
}

// MarshalJSON returns c as JSON.
func (c Change) MarshalJSON() ([]byte, error) {
	j := jsonChange{plainChange: plainChange(c)}
	if !utf8.ValidString(c.Path) {
		j.Path64 = []byte(c.Path)
	}
	if !utf8.ValidString(c.From) {
		j.From64 = []byte(c.From)
	}
	return json.Marshal(&j)
}

// UnmarshalJSON reads what MarshalJSON returns.
func (c *Change) UnmarshalJSON(b []byte) error {
	var j jsonChange
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*c = Change(j.plainChange)
	if j.Path64 != nil {
		c.Path = string(j.Path64)
	}
	if j.From64 != nil {
		c.From = string(j.From64)
	}
	return nil
}

// A Snapshot is a copy of a sandbox's changes.
type Snapshot struct {
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"createdAt"`
	Memory    bool      `json:"memory,omitempty"` // it has the sandbox's memory too
}

// SnapshotOptions are options of Workspace.Snapshot.
type SnapshotOptions struct {
	// Memory keeps the memory of all processes too. The sandbox, which must run, stands still
	// meanwhile. It need not have a copied codebase: then there are no changes, and the codebase is
	// shared. A backend or a configuration for which that cannot be is [ErrUnsupported]. What is
	// kept holds each secret that the sandbox's memory does.
	Memory bool
}

// ForkOptions are options of Workspace.Fork.
type ForkOptions struct {
	Name string // of the sandbox; of several ones NAME-1, NAME-2; empty: none
	// Memory is as of SnapshotOptions. The first Start restores it: sessions and kept jobs run on,
	// commands of clients end. A file that is open inside and that the host has removed, or another
	// wolffia or runsc, is then [ErrConflict]. A fork that was not started can be forked so too.
	Memory bool
	Count  int // how many; 0 is 1, at most [MaxForks]
}

// MaxForks is how many sandboxes one Fork makes.
const MaxForks = 100
