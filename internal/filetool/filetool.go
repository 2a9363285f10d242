// Package filetool does the file operations of an agent's tools inside a sandbox: read, write,
// edit, list, glob and grep. wolffia-guest runs it as a command, so it obeys the sandbox's
// rules as any other process inside, and needs nothing of the image.
//
// A [Request] comes as JSON on standard input, and a [Response] goes to standard output. What
// an answer has of a file is bounded by Request.MaxBytes.
package filetool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"wolffia/internal/archive"
)

// Arg is the argument with which wolffia-guest is this tool.
const Arg = "tool"

// The operations.
const (
	Read  = "read"
	Write = "write"
	Edit  = "edit"
	List  = "list"
	Glob  = "glob"
	Grep  = "grep"
)

const (
	// MaxRequest bounds a request, in bytes.
	MaxRequest = 48 << 20
	// MaxEdit is the size in bytes of the largest file that Edit changes.
	MaxEdit = 32 << 20
	// maxVisited is how many names Glob, Grep and List look at.
	maxVisited = 2_000_000
)

// A Request asks for one operation. Path is relative to the working directory, or absolute;
// symbolic links in it are followed.
type Request struct {
	Op   string `json:"op"`
	Path string `json:"path"`
	// MaxBytes is how many bytes of text or data the response has at most.
	MaxBytes int `json:"maxBytes"`

	// Of Read: lines from Line on, the first is 1; or bytes from Offset on, if Bytes is set.
	// Raw returns Data in place of Text. Lines 0: up to the end.
	Line   int   `json:"line,omitempty"`
	Lines  int   `json:"lines,omitempty"`
	Bytes  bool  `json:"bytes,omitempty"`
	Offset int64 `json:"offset,omitempty"`
	Raw    bool  `json:"raw,omitempty"`

	// Of Write.
	Data []byte `json:"data,omitempty"`

	// Of Edit: Old is replaced by New, once, or wherever it is with All.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
	All bool   `json:"all,omitempty"`

	// Of List, Glob and Grep. Max is how many entries, names or matches the response has.
	// Depth is how many levels of directories List shows; 0 means 1.
	Max     int    `json:"max,omitempty"`
	Depth   int    `json:"depth,omitempty"`
	Pattern string `json:"pattern,omitempty"`
	// Files limits Grep to files that match this pattern of Glob.
	Files      string `json:"files,omitempty"`
	IgnoreCase bool   `json:"ignoreCase,omitempty"`
	Fixed      bool   `json:"fixed,omitempty"` // Pattern is a text
	Context    int    `json:"context,omitempty"`
	NamesOnly  bool   `json:"namesOnly,omitempty"` // the files with matches, and how many
}

// A Response is the result of the operation, or an error.
type Response struct {
	Error *Error `json:"error,omitempty"`

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

// An Entry is a name that List has found.
type Entry struct {
	Name   string `json:"name"` // relative to the directory
	Type   string `json:"type"` // "file", "directory", "link" or "other"
	Size   int64  `json:"size"` // of a file, in bytes
	Target string `json:"target,omitempty"`
}

// A Match is a line that Grep has found, or one of its context, or with NamesOnly a file.
type Match struct {
	Path    string `json:"path"`
	Line    int    `json:"line,omitempty"`
	Text    string `json:"text,omitempty"`
	Context bool   `json:"context,omitempty"`
	Count   int    `json:"count,omitempty"` // of matching lines, with NamesOnly
}

// The kinds of error.
const (
	Missing    = "missing"
	Denied     = "denied"
	NotRegular = "notRegular"
	NotDir     = "notDirectory"
	TooLarge   = "tooLarge"
	NoMatch    = "noMatch"
	Ambiguous  = "ambiguous"
	Invalid    = "invalid"
	Other      = "other"
)

// An Error says why an operation failed.
type Error struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return e.Message }

// errorf returns an Error of a kind.
func errorf(kind, format string, args ...any) *Error {
	return &Error{kind, fmt.Sprintf(format, args...)}
}

// Main reads a request from in and writes the response to out. The error says that one of both
// failed.
func Main(in io.Reader, out io.Writer) error {
	data, err := io.ReadAll(io.LimitReader(in, MaxRequest+1))
	if err != nil {
		return err
	}
	req, res := new(Request), new(Response)
	switch err := json.Unmarshal(data, req); {
	case len(data) > MaxRequest:
		res.Error = errorf(TooLarge, "the request has more than %d bytes", MaxRequest)
	case err != nil:
		return err
	default:
		res = Do(req)
	}
	return json.NewEncoder(out).Encode(res)
}

// Do does the operation.
func Do(req *Request) *Response {
	operations := map[string]func(*Request) (*Response, error){Read: read, Write: write, Edit: edit, List: list, Glob: glob, Grep: grep}
	do := operations[req.Op]
	if do == nil {
		return &Response{Error: errorf(Invalid, "operation %q does not exist", req.Op)}
	}
	if req.Path == "" {
		return &Response{Error: errorf(Invalid, "the path is empty")}
	}
	res, err := do(req)
	if err != nil {
		return &Response{Error: errorOf(err)}
	}
	return res
}

// errorOf returns the Error for an error of the operating system.
func errorOf(err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	message := err.Error()
	var failed *fs.PathError
	var renamed *os.LinkError
	switch {
	case errors.As(err, &failed):
		message = failed.Err.Error()
	case errors.As(err, &renamed):
		message = renamed.Err.Error()
	case errors.Is(err, archive.ErrNotRegular):
		message = archive.ErrNotRegular.Error()
	}
	for _, e := range []struct {
		err  error
		kind string
	}{
		{fs.ErrNotExist, Missing},
		{fs.ErrPermission, Denied},
		{unix.EROFS, Denied},
		{archive.ErrNotRegular, NotRegular},
		{unix.EISDIR, NotRegular},
		{unix.ENOTDIR, NotDir},
	} {
		if errors.Is(err, e.err) {
			return &Error{e.kind, message}
		}
	}
	return &Error{Other, message}
}
