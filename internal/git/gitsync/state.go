package gitsync

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"wolffia/internal/sys/statefile"
	"wolffia/internal/sys/step"
)

// Files of the directory State.
const (
	stateFile   = "state.json"
	journalFile = "journal.json"
	stampFile   = "stamp.json"
	indexBase   = "index.base" // the index of the copy, as it was made
	maxState    = 512 << 20    // bytes
	emptyDir    = "empty"      // the working tree of the host's git
)

// A record is what both sides had after the last sync.
type record struct {
	Base  table    `json:"base"`
	Stash []string `json:"stash"`
	// Staged identifies the set of staged files; "" is the empty one.
	Staged        string `json:"staged"`
	StagedUnknown bool   `json:"stagedUnknown,omitempty"` // it is that of the file index.base
	// Index identifies the entries of the index on both sides, as of tree.entries. unsettled: they
	// are not the same, or the sync has something else to report.
	Index    string            `json:"index"`
	Exported map[string]export `json:"exported,omitempty"`
	Files    map[string]string `json:"files"` // digests of the files that follow the host's
	// Upstreams are those of the sandbox's that the host has got, or had before.
	Upstreams map[string]upstream `json:"upstreams,omitempty"`
	// Theirs is set when the user has changed something on the host that the sandbox got.
	Theirs bool     `json:"theirs,omitempty"`
	Ours   []string `json:"ours,omitempty"` // stashes of the host that the sandbox has made
}

// unsettled is a record.Index that no index has.
const unsettled = "?"

// A journal is what a sync is about to do on the host. The references move in one transaction: if
// one has moved, all have.
type journal struct {
	Moves   []move  `json:"moves"` // of references that stay or are made
	Removed []move  `json:"removed"`
	HeadOld string  `json:"headOld"`
	HeadNew string  `json:"headNew"` // "": it stays
	Index   bool    `json:"index"`   // the file index.wolffia.NAME becomes the index
	IndexID fileID  `json:"indexID"` // of the present index
	Stash   []stash `json:"stash"`   // to be stored, the newest first
	// Dropped are stashes of the host that the sandbox has dropped.
	Dropped []string `json:"dropped,omitempty"`
	After   record   `json:"after"`
}

// A fileID identifies a version of a file that git replaces as a whole. The zero one is a missing
// file.
type fileID struct {
	Inode uint64 `json:"inode"`
	Size  int64  `json:"size"`
	Time  int64  `json:"time"`
}

// reached marks a failpoint: a kill there is repaired by the next sync.
func (p *Pair) reached(name string) {
	step.Reached("gitsync: " + name)
	if p.at != nil {
		p.at(name)
	}
}

func (p *Pair) path(name string) string { return filepath.Join(p.State, name) }

// load reads a file of the directory State, and reports whether it exists.
func (p *Pair) load(name string, v any) (bool, error) {
	b, err := statefile.ReadBytes(p.path(name), maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	return err == nil, err
}

func (p *Pair) drop(name string) error { return remove(p.path(name)) }

// remove removes a file, if it exists.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// begin replaces the record. It does so without fsync: after a crash of the machine the sandbox
// does not exist, and an incomplete record is an error.
func (p *Pair) begin(rec *record) error {
	if err := errors.Join(p.drop(journalFile), p.drop(stampFile)); err != nil {
		return err
	}
	return statefile.Write(p.path(stateFile), rec)
}
