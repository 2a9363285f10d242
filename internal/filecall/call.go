// Package filecall has the calls about files that a service makes in a sandbox. They are
// done by a process inside, with its rights: [Do] there, and the host sends a [Request] to
// it and reads the [Reply], which can say anything.
//
//	guest files          Request on stdin, Reply on stdout
//	guest read FROM MOST PATH      Head, then the content on stdout
//	guest lines FIRST MOST PATH    Head, then the lines on stdout
//	guest write          Target, then the content in chunks on stdin
//
// Symbolic links on the way to a file are followed, as the sandbox has them.
package filecall

import (
	"time"
)

// The operations of a [Request].
const (
	OpInfo    = "info"    // describes Paths
	OpList    = "list"    // describes what is in the directory Path, Depth levels deep
	OpSearch  = "search"  // describes what is below the directory Path and has a base name that matches Pattern
	OpRemove  = "remove"  // deletes Paths, which are not directories
	OpRmdir   = "rmdir"   // deletes the directories Paths with all that is below them
	OpMkdir   = "mkdir"   // creates the directories of Modes and their parents
	OpMode    = "mode"    // changes mode and owner of the files of Modes
	OpMove    = "move"    // renames
	OpReplace = "replace" // replaces text in files
	OpHost    = "host"    // describes the machine
)

// A Request asks for one operation.
type Request struct {
	Op      string             `json:"op"`
	Paths   []string           `json:"paths,omitempty"`
	Path    string             `json:"path,omitempty"`
	Pattern string             `json:"pattern,omitempty"` // of path.Match; empty: all
	Depth   int                `json:"depth,omitempty"`
	Modes   map[string]Mode    `json:"modes,omitempty"`   // by path
	Moves   []Move             `json:"moves,omitempty"`   // done in this order
	Replace map[string]Replace `json:"replace,omitempty"` // by path
}

// A Mode says what a file is to have. The zero value changes nothing.
type Mode struct {
	Mode  uint32 `json:"mode,omitempty"`  // permission bits; 0: unchanged
	Owner string `json:"owner,omitempty"` // a name or a number
	Group string `json:"group,omitempty"`
}

// A Move renames a file or directory. Nothing may have the name To.
type Move struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// A Replace replaces each occurrence of a text.
type Replace struct {
	Old string `json:"old"`
	New string `json:"new"`
}

// A Reply is the result of a Request. With Err, a part of the work may have been done.
type Reply struct {
	Infos  []Info         `json:"infos,omitempty"`  // in the order of Paths, or of the walk
	Counts map[string]int `json:"counts,omitempty"` // replacements, by path
	Host   *Host          `json:"host,omitempty"`
	Err    *Error         `json:"err,omitempty"`
}

// An Info describes a file; of a symbolic link it describes the link.
type Info struct {
	Path     string    `json:"path"`
	Type     string    `json:"type"` // file, directory, symlink, other
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	Created  time.Time `json:"created"` // where the file system has no such time, that of the last change
	Owner    string    `json:"owner"`   // its name, or its number where it has none
	Group    string    `json:"group"`
	Mode     uint32    `json:"mode"` // permission bits
}

// A Host describes the machine as a process in the sandbox sees it. Times are in ticks.
type Host struct {
	CPUs      int    `json:"cpus"`
	Busy      uint64 `json:"busy"` // time of all CPUs
	Total     uint64 `json:"total"`
	MemTotal  uint64 `json:"memTotal"` // bytes
	MemUnused uint64 `json:"memUnused"`
}

// An Error says why an operation failed.
type Error struct {
	Kind    string `json:"kind"` // one of the kinds
	Message string `json:"message"`
}

// The kinds of an [Error].
const (
	KindMissing = "missing"
	KindExists  = "exists"
	KindDenied  = "denied"
	KindInvalid = "invalid"
	KindOther   = "other"
)

func (e *Error) Error() string { return e.Message }

// A Head is the first line of what read and lines print.
type Head struct {
	Size  int64 `json:"size"`  // of the file, in bytes
	Start int64 `json:"start"` // the offset of the content
	Bytes int64 `json:"bytes"` // of the content; -1: until the end of the output
}

// A Target is the first line of what write reads.
type Target struct {
	Path string `json:"path"`
	Mode
}

const (
	// MaxRequest is the largest Request, in bytes of JSON.
	MaxRequest = 8 << 20
	// MaxInfos is how many files a Reply describes.
	MaxInfos = 20_000
	// MaxText is the largest file in which text is replaced, and the largest one whose size
	// is only known after reading it, in bytes.
	MaxText = 32 << 20
	// MaxFile is the largest file that write takes, in bytes.
	MaxFile = 1 << 30
)
