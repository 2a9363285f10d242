// Package filecall does file operations inside a sandbox for a process on the host, such as
// the service or wolffia mcp. They are done by a process inside, with its rights, and need
// nothing of the image: [Serve] there; the host sends a [Request] after the other to it and reads each
// [Reply], which can say anything. Package fileclient is the host's end.
//
// Symbolic links on the way to a file are followed, as the sandbox has them.
package filecall

import "time"

// Arg is the argument with which wolffia-guest does Requests. Earlier versions, of which each did one, had another.
const Arg = "serve-files"

// The operations of a [Request]. Those on the one file or directory Path are of an agent's
// tools, the others are of a service.
const (
	OpRead = "read"
	OpEdit = "edit" // replaces an exact text in the file
	OpTree = "tree" // lists what is in the directory, Depth levels deep, without what is in .git
	OpGlob = "glob" // finds files by the pattern of their paths
	OpGrep = "grep" // finds lines by a regular expression

	OpInfo    = "info"    // describes Paths
	OpList    = "list"    // describes what is in the directory Path, Depth levels deep
	OpSearch  = "search"  // describes the files below the directory Path whose base name, or whole name if Pattern has a slash, matches it
	OpRemove  = "remove"  // deletes Paths, which are not directories
	OpRmdir   = "rmdir"   // deletes the directories Paths with all that is below them
	OpMkdir   = "mkdir"   // creates the directories of Modes and their parents
	OpMode    = "mode"    // changes mode and owner of the files of Modes
	OpMove    = "move"    // renames
	OpReplace = "replace" // replaces text in files
	OpPatch   = "patch"   // replaces bytes of the file Path by Data, from Offset on
	OpHost    = "host"    // describes the machine
	OpNewDir  = "newdir"  // creates the directory Path, which must not exist, and its parents, and describes it
	OpDelete  = "delete"  // deletes Paths with all that is below them; those that do not exist are no error
	OpJoin    = "join"    // makes the content of Paths, one after the other, that of the file Path, and deletes them
	OpHome    = "home"    // finds the home directory of the user Pattern

	// OpPut makes a content that follows the Request that of the file Path, and applies Mode. OpWrite is OpPut for an agent's
	// tool: it follows a symbolic link.
	OpPut   = "put"
	OpWrite = "save" // an older guest's "write" has no content that follows
	// OpStore writes a content that follows the Request to the file Path, in place, applies Mode, replaces Attrs, and
	// describes it. It follows a symbolic link. A content that ends early leaves a part of it.
	OpStore = "store"
	// OpWatch reports changes of what is in the directory Path, and with Depth > 1 in those below it: after the Reply
	// come frames of JSON, each with some [Event] values, until the process is ended.
	OpWatch = "watch"
	// OpGet and OpLines have a Head in the Reply, after which a content follows: Most bytes or lines of the file Path.
	OpGet   = "get"   // from the offset From on, which counts from the end if it is negative
	OpLines = "lines" // from the line From on; the first is 1
)

// A Request asks for one operation. Paths are absolute, or relative to the working directory.
type Request struct {
	Op      string `json:"op"`
	Path    string `json:"path,omitempty"`
	Pattern string `json:"pattern,omitempty"` // as doublestar has it; empty: all. Of OpGrep it is as RE2 has it
	Depth   int    `json:"depth,omitempty"`   // levels of directories; 0 means 1
	// MaxBytes is how many bytes of text or data the reply to an agent's tool has.
	MaxBytes int `json:"maxBytes,omitempty"`

	Paths   []string           `json:"paths,omitempty"`
	Modes   map[string]Mode    `json:"modes,omitempty"`   // by path
	Moves   []Move             `json:"moves,omitempty"`   // done in this order
	Replace map[string]Replace `json:"replace,omitempty"` // by path

	// Of OpRead: lines from Line on, the first is 1; or bytes from Offset on, if Bytes is set.
	// Raw returns Data in place of Text. Lines 0: up to the end.
	Line   int   `json:"line,omitempty"`
	Lines  int   `json:"lines,omitempty"`
	Bytes  bool  `json:"bytes,omitempty"`
	Offset int64 `json:"offset,omitempty"`
	Raw    bool  `json:"raw,omitempty"`

	// Of OpPatch.
	Data []byte `json:"data,omitempty"`

	// Of OpPut, OpWrite, OpStore and OpNewDir.
	Mode Mode `json:"mode,omitzero"`

	// Of OpWatch: also where a server changes files without an event, as with NFS.
	Remote bool `json:"remote,omitempty"`

	// Full makes each [Info] of the Reply a complete one, with the attributes whose names begin with Prefix, unless that is
	// empty. Of OpWatch: events have one.
	Full   bool   `json:"full,omitempty"`
	Prefix string `json:"prefix,omitempty"` // such as user.name.
	// Attrs are the extended attributes of OpStore, by name without Prefix: others with Prefix are removed.
	Attrs map[string]string `json:"attrs,omitempty"`

	// Of OpGet and OpLines; Most < 0 means all.
	From int64 `json:"from,omitempty"`
	Most int64 `json:"most,omitempty"`

	// Of OpEdit: Old is replaced by New, once, or wherever it is with All.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
	All bool   `json:"all,omitempty"`

	// Of OpTree, OpGlob and OpGrep: Max is how many entries, names or matches the reply has.
	Max int `json:"max,omitempty"`
	// Of OpGrep. Files limits it to files that match this pattern of OpGlob.
	Files      string `json:"files,omitempty"`
	IgnoreCase bool   `json:"ignoreCase,omitempty"`
	Fixed      bool   `json:"fixed,omitempty"` // Pattern is a text
	Context    int    `json:"context,omitempty"`
	NamesOnly  bool   `json:"namesOnly,omitempty"` // the files with matches, and how many
}

// A Mode says what a file is to have. The zero value changes nothing.
type Mode struct {
	Mode  uint32 `json:"mode,omitempty"`  // permission bits; 0: unchanged
	Owner string `json:"owner,omitempty"` // a name or a number
	Group string `json:"group,omitempty"`
}

// A Move renames a file or directory. Nothing may have the name To, unless Replace is set.
type Move struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Replace bool   `json:"replace,omitempty"`
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
	Head   *Head          `json:"head,omitempty"`
	Err    *Error         `json:"err,omitempty"`

	// Path is the file that was read, written or changed, after symbolic links.
	Path string `json:"path,omitempty"`
	Size int64  `json:"size,omitempty"` // in bytes, afterwards

	Text      string `json:"text,omitempty"`
	Data      []byte `json:"data,omitempty"`
	Binary    bool   `json:"binary,omitempty"`    // the file is not text; Text is empty
	Lossy     bool   `json:"lossy,omitempty"`     // bytes that are not UTF-8 were replaced in Text
	First     int    `json:"first,omitempty"`     // number of the first line of Text
	Last      int    `json:"last,omitempty"`      // number of the last line of Text
	Total     int    `json:"total,omitempty"`     // lines of the file; 0: not counted
	Truncated bool   `json:"truncated,omitempty"` // the file, or the list, goes on
	Cut       bool   `json:"cut,omitempty"`       // the last line of Text is not complete
	Next      int64  `json:"next,omitempty"`      // offset in bytes after Text or Data

	Created bool  `json:"created,omitempty"`
	Count   int   `json:"count,omitempty"` // of replacements
	Lines   []int `json:"lines,omitempty"` // the first replacements, by line

	Entries []Entry  `json:"entries,omitempty"`
	Names   []string `json:"names,omitempty"`
	Matches []Match  `json:"matches,omitempty"`
	// Skipped counts files and directories that could not be read, and SkippedBinary files
	// that are not text.
	Skipped       int `json:"skipped,omitempty"`
	SkippedBinary int `json:"skippedBinary,omitempty"`
}

// An Entry is a name that OpTree has found.
type Entry struct {
	Name   string `json:"name"` // relative to the directory
	Type   string `json:"type"` // "file", "directory", "link" or "other"
	Size   int64  `json:"size"` // of a file, in bytes
	Target string `json:"target,omitempty"`
}

// A Match is a line that OpGrep has found, or one of its context, or with NamesOnly a file.
type Match struct {
	Path    string `json:"path"`
	Line    int    `json:"line,omitempty"`
	Text    string `json:"text,omitempty"`
	Context bool   `json:"context,omitempty"`
	Count   int    `json:"count,omitempty"` // of matching lines, with NamesOnly
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

	// Of a complete Info. Of a symbolic link Target is where it leads, TargetType and TargetMode are Type and Mode of that;
	// empty: it leads nowhere. Text is type and mode as [fs.FileMode] has them.
	Text       string            `json:"text,omitempty"`
	Target     string            `json:"target,omitempty"`
	TargetType string            `json:"targetType,omitempty"`
	TargetMode uint32            `json:"targetMode,omitempty"`
	Attrs      map[string]string `json:"attrs,omitempty"`
}

// An Event says that something has happened to a name.
type Event struct {
	Name string `json:"name"` // relative to the directory that is watched; "." is that itself
	Op   string `json:"op"`   // as in package dirwatch, or Overflow
	Info *Info  `json:"info,omitempty"`
}

// Overflow is the Op of the last Event if events were lost.
const Overflow = "overflow"

// A Host describes the machine as a process in the sandbox sees it. Times are in ticks.
type Host struct {
	CPUs      int    `json:"cpus"`
	Busy      uint64 `json:"busy"` // time of all CPUs
	Total     uint64 `json:"total"`
	MemTotal  uint64 `json:"memTotal"` // bytes
	MemUnused uint64 `json:"memUnused"`
	MemCache  uint64 `json:"memCache"`
	DiskTotal uint64 `json:"diskTotal"` // of /
	DiskUsed  uint64 `json:"diskUsed"`
}

// An Error says why an operation failed.
type Error struct {
	Kind    string `json:"kind"` // one of the kinds
	Message string `json:"message"`
	// Cause is the end of Message, without the file; empty: Message has none.
	Cause string `json:"cause,omitempty"`
}

// The kinds of an [Error].
const (
	KindMissing    = "missing"
	KindExists     = "exists"
	KindDenied     = "denied"
	KindNotRegular = "notRegular"
	KindNotDir     = "notDirectory"
	KindLoop       = "loop" // of symbolic links
	KindName       = "name" // no file can have the name
	KindTooLarge   = "tooLarge"
	KindNoMatch    = "noMatch"
	KindAmbiguous  = "ambiguous"
	KindFull       = "full"         // the file system, or the sandbox's share of it
	KindNoAttrs    = "noAttributes" // the file system has none
	KindInvalid    = "invalid"      // the request
	KindOther      = "other"
)

func (e *Error) Error() string { return e.Message }

// A Head describes a content that follows.
type Head struct {
	Size  int64 `json:"size"`  // of the file, in bytes
	Start int64 `json:"start"` // the offset of the content
	Bytes int64 `json:"bytes"` // of the content; -1: not known
	// Modified is when the file was changed.
	Modified time.Time `json:"modified"`
}

const (
	// MaxRequest is the largest Request, in bytes of JSON.
	MaxRequest = 48 << 20
	// MaxInfos is how many files a Reply describes.
	MaxInfos = 20_000
	// MaxText is the largest file in which text is replaced or edited, and the largest one whose size
	// is only known after reading it, in bytes.
	MaxText = 32 << 20
	// MaxFile is the largest file that OpPut, OpWrite and OpStore take, in bytes.
	MaxFile = 1 << 30
	// maxVisited is how many names a walk looks at.
	maxVisited = 2_000_000
	// MaxEvents is the largest frame with events, in bytes of JSON.
	MaxEvents = 4 << 20
)
