package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"wolffia/internal/filecall"
	"wolffia/internal/fileclient"
	"wolffia/runtime"
)

const (
	defaultLines = 2000    // of a file, in a result
	defaultRead  = 100_000 // bytes
	maxImage     = 4 << 20 // bytes of an image in a result
	maxEntries   = 10_000
)

type readIn struct {
	Path     string `json:"path" jsonschema:"relative to the sandbox's working directory, or absolute inside the sandbox"`
	Line     int    `json:"offset,omitempty" jsonschema:"first line, from 1; default 1"`
	Lines    int    `json:"limit,omitempty" jsonschema:"how many lines; default 2000"`
	Numbers  *bool  `json:"line_numbers,omitempty" jsonschema:"whether each line of the text is preceded by its number and a tab; default true"`
	AtByte   *int64 `json:"byte_offset,omitempty" jsonschema:"read bytes from this offset on, in place of lines"`
	MaxBytes int    `json:"max_bytes,omitempty" jsonschema:"default 100000, at most 1000000"`
	Encoding string `json:"encoding,omitempty" jsonschema:"utf-8, which is the default, or base64 for any content"`
}

// A readOut is for base64, which a program reads. A model reads text, or an image: see loose.
type readOut struct {
	Path      string `json:"path"`
	Content   string `json:"content"`
	Encoding  string `json:"encoding"`
	Size      int64  `json:"size"`
	Truncated bool   `json:"truncated,omitempty"`
	Next      int64  `json:"next_byte"`
}

type writeIn struct {
	Path     string `json:"path" jsonschema:"relative to the sandbox's working directory, or absolute inside the sandbox; missing directories are made"`
	Content  string `json:"content" jsonschema:"the whole content"`
	Encoding string `json:"encoding,omitempty" jsonschema:"utf-8, which is the default, or base64"`
}

type writeOut struct {
	Path    string `json:"path"`
	Size    int64  `json:"size"`
	Created bool   `json:"created" jsonschema:"the file did not exist"`
}

type editIn struct {
	Path string `json:"path" jsonschema:"relative to the sandbox's working directory, or absolute inside the sandbox"`
	Old  string `json:"old_string" jsonschema:"the text to replace, exactly as in the file, which must have it once"`
	New  string `json:"new_string"`
	All  bool   `json:"replace_all,omitempty" jsonschema:"replace each occurrence"`
}

type editOut struct {
	Path  string `json:"path"`
	Size  int64  `json:"size"`
	Count int    `json:"replacements"`
	Lines []int  `json:"lines,omitempty" jsonschema:"where the first ones began, before the edit"`
}

type listIn struct {
	Path  string `json:"path,omitempty" jsonschema:"a directory; default: the sandbox's working directory"`
	Depth int    `json:"depth,omitempty" jsonschema:"how many levels; default 1"`
	Max   int    `json:"max_entries,omitempty" jsonschema:"default 1000, at most 10000"`
}

type listOut struct {
	Path      string  `json:"path"`
	Entries   []entry `json:"entries"`
	Truncated bool    `json:"truncated,omitempty"`
	Note      string  `json:"note,omitempty"`
}

type entry struct {
	Name   string `json:"name" jsonschema:"relative to the directory"`
	Type   string `json:"type" jsonschema:"file, directory, link or other"`
	Size   int64  `json:"size,omitempty"`
	Target string `json:"target,omitempty" jsonschema:"of a link"`
}

type globIn struct {
	Pattern string `json:"pattern" jsonschema:"such as **/*.go or src/**/*.{ts,tsx}; ** is any number of directories"`
	Path    string `json:"path,omitempty" jsonschema:"the directory to begin at; default: the sandbox's working directory"`
	Max     int    `json:"max_results,omitempty" jsonschema:"default 1000, at most 10000"`
}

type globOut struct {
	Files     []string `json:"files"`
	Truncated bool     `json:"truncated,omitempty"`
	Note      string   `json:"note,omitempty"`
}

type grepIn struct {
	Pattern    string `json:"pattern" jsonschema:"regular expression (RE2), for one line"`
	Path       string `json:"path,omitempty" jsonschema:"a file or a directory; default: the sandbox's working directory"`
	Glob       string `json:"glob,omitempty" jsonschema:"search only files that match, such as *.go (by name) or src/**/*.ts (by path)"`
	IgnoreCase bool   `json:"ignore_case,omitempty"`
	Fixed      bool   `json:"fixed,omitempty" jsonschema:"the pattern is a text, not an expression"`
	Context    int    `json:"context,omitempty" jsonschema:"how many lines to show around each match"`
	FilesOnly  bool   `json:"files_only,omitempty" jsonschema:"return the files with matches, and how many lines match in each"`
	Max        int    `json:"max_results,omitempty" jsonschema:"default 200, at most 10000"`
}

type grepOut struct {
	Matches   []match `json:"matches"`
	Truncated bool    `json:"truncated,omitempty"`
	Note      string  `json:"note,omitempty"`
	Binary    int     `json:"skipped_binary,omitempty" jsonschema:"how many files that are not text were not searched"`
	Skipped   int     `json:"skipped,omitempty" jsonschema:"how many files and directories could not be read"`
}

type match struct {
	Path    string `json:"path"`
	Line    int    `json:"line,omitempty"`
	Text    string `json:"text,omitempty"`
	Context bool   `json:"context,omitempty" jsonschema:"a line around a match"`
	Count   int    `json:"count,omitempty"`
}

func (s *Server) addFiles() {
	tool(s, &sdk.Tool{
		Name: "read_file", Title: "Read a file",
		Description: "Read a text file by lines, or any file by bytes. Images are returned as images. With base64 there is also structured content, whose next_byte is the byte_offset at which to go on. A relative path begins at the sandbox's working directory, wherever the shell is.",
		Annotations: reads(),
	}, (*call).read)
	tool(s, &sdk.Tool{
		Name: "write_file", Title: "Write a file",
		Description: "Create a file, or replace its whole content at once. Missing directories are made.",
		Annotations: &sdk.ToolAnnotations{IdempotentHint: true, OpenWorldHint: new(false)},
	}, (*call).write)
	tool(s, &sdk.Tool{
		Name: "edit_file", Title: "Edit a file",
		Description: "Replace a text in a file by another one, exactly. It fails if the file does not have the text, or has it several times without replace_all.",
		Annotations: &sdk.ToolAnnotations{OpenWorldHint: new(false)},
	}, (*call).edit)
	tool(s, &sdk.Tool{
		Name: "list_dir", Title: "List a directory",
		Description: "List what is in a directory, sorted by name.",
		Annotations: reads(),
	}, (*call).list)
	tool(s, &sdk.Tool{
		Name: "glob", Title: "Find files by name",
		Description: "Find files whose paths match a pattern, sorted by path. What is in .git is left out unless the pattern names it.",
		Annotations: reads(),
	}, (*call).glob)
	tool(s, &sdk.Tool{
		Name: "grep", Title: "Search in files",
		Description: "Search for a regular expression in the lines of files. Binary files and .git are left out.",
		Annotations: reads(),
	}, (*call).grep)
}

// inside does a file operation, as a command in the sandbox.
func (c *call) inside(ctx context.Context, req *filecall.Request, content io.Reader) (*filecall.Reply, error) {
	if req.Path == "" {
		req.Path = "."
	}
	if err := take(ctx, c.working); err != nil {
		return nil, err
	}
	defer func() { c.working <- struct{}{} }()
	at := fileclient.Place{Sandbox: c.id()}
	if path.IsAbs(req.Path) {
		at.Dir = "/" // the sandbox's working directory may be gone
	}
	denied := func(context.Context) *runtime.Denials { return nil }
	if w, ok := c.Runtime.(runtime.Workspace); ok {
		denied = w.WatchDenials(c.id())
	}
	answer, err := c.files.Do(ctx, at, req, content, answerLimit(req))
	if errors.Is(err, fileclient.ErrLate) {
		return nil, fmt.Errorf("the operation did not end within %v: name a smaller directory, or a narrower pattern", fileclient.Limit)
	}
	e, said := errors.AsType[*filecall.Error](err)
	if !said {
		return answer, err
	}
	message := cmp.Or(e.Cause, e.Message)
	if req.Op != filecall.OpGlob && e.Kind != filecall.KindInvalid {
		message = req.Path + ": " + message
	}
	if d := denied(ctx); d != nil {
		var b strings.Builder
		lines(&b, c.denials(&runtime.Result{Denied: d.List}), d.More, deniedLine, "%d more accesses were denied\n")
		if b.Len() > 0 {
			message += "\n" + strings.TrimSuffix(b.String(), "\n")
		}
	}
	return nil, errors.New(message)
}

// answerLimit returns how many bytes an answer may have, as JSON: the process that writes it is
// one of the sandbox, and others there could change it.
func answerLimit(req *filecall.Request) int {
	const (
		escaped = 6        // bytes of JSON for one byte
		more    = 64 << 10 // for a path, an error and the other fields
	)
	return escaped*req.MaxBytes + more
}

// take takes a value of a channel, or returns why ctx has ended.
func take(ctx context.Context, from <-chan struct{}) error {
	select {
	case <-from:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// changing does an operation that changes a file. It does one after the other: two edits of a
// file at the same time would lose one.
func (c *call) changing(ctx context.Context, req *filecall.Request, content io.Reader) (*filecall.Reply, error) {
	if err := take(ctx, c.writing); err != nil {
		return nil, err
	}
	defer func() { c.writing <- struct{}{} }()
	return c.inside(ctx, req, content)
}

// count returns a number that a call asks for, or the default.
func count[N int | int64](name string, asked, otherwise, most N) (N, error) {
	switch {
	case asked == 0:
		return otherwise, nil
	case asked < 0 || asked > most:
		return 0, fmt.Errorf("%s %d: it must be from 1 to %d, or 0 for the default", name, asked, most)
	}
	return asked, nil
}

// images are the types of image that clients show.
var images = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

func (c *call) read(ctx context.Context, in readIn) (reply, *readOut, error) {
	most, err := count("max_bytes", in.MaxBytes, defaultRead, MaxOutput)
	if err != nil {
		return reply{}, nil, err
	}
	req := &filecall.Request{Op: filecall.OpRead, Path: in.Path, MaxBytes: most, Line: in.Line, Lines: in.Lines}
	switch {
	case in.Encoding != "" && in.Encoding != "utf-8" && in.Encoding != "base64":
		return reply{}, nil, fmt.Errorf("encoding %q: it must be utf-8 or base64", in.Encoding)
	case in.Line < 0 || in.Lines < 0:
		return reply{}, nil, errors.New("offset and limit must not be negative")
	case in.Path == "":
		return reply{}, nil, errors.New("path is empty")
	}
	if req.Lines == 0 {
		req.Lines = defaultLines
	}
	if in.AtByte != nil {
		req.Bytes, req.Offset = true, *in.AtByte
	}
	req.Raw = in.Encoding == "base64"
	res, err := c.inside(ctx, req, nil)
	if err != nil {
		return reply{}, nil, err
	}
	switch {
	case req.Raw:
		out := &readOut{res.Path, base64.StdEncoding.EncodeToString(res.Data), "base64", res.Size, res.Truncated, res.Next}
		return reply{text: out.Content}, out, nil
	case res.Binary:
		r, err := c.readBinary(ctx, in.Path, res.Size)
		return r, nil, err
	}
	text := res.Text
	if !req.Bytes && (in.Numbers == nil || *in.Numbers) {
		text = numbered(text, res.First)
	}
	if note := readNote(res, req.Bytes); note != "" {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text += "[" + note + "]"
	}
	return reply{text: text}, nil, nil
}

// readNote says what the text of a file does not.
func readNote(r *filecall.Reply, byBytes bool) string {
	var notes []string
	switch {
	case r.Size == 0 && r.Text == "":
		notes = append(notes, "the file is empty")
	case r.Cut:
		notes = append(notes, fmt.Sprintf("line %d is cut: go on with byte_offset %d", r.Last, r.Next))
	case r.Truncated && byBytes:
		notes = append(notes, fmt.Sprintf("the file has %d bytes: go on with byte_offset %d", r.Size, r.Next))
	case r.Truncated:
		of := ""
		if r.Total > 0 {
			of = fmt.Sprintf(" of %d", r.Total)
		}
		notes = append(notes, fmt.Sprintf("lines %d to %d%s: go on with offset %d", r.First, r.Last, of, r.Last+1))
	}
	if r.Lossy {
		notes = append(notes, "bytes that are not UTF-8 are shown as \ufffd: edit_file keeps them")
	}
	return strings.Join(notes, "; ")
}

// readBinary returns an image, or what a binary file is.
func (c *call) readBinary(ctx context.Context, name string, size int64) (reply, error) {
	most := 512 // enough to know the type
	if size <= maxImage {
		most = maxImage
	}
	res, err := c.inside(ctx, &filecall.Request{Op: filecall.OpRead, Path: name, MaxBytes: most, Raw: true}, nil)
	if err != nil {
		return reply{}, err
	}
	kind := http.DetectContentType(res.Data)
	text := fmt.Sprintf("%s is a binary file of %d bytes (%s)", name, size, kind)
	if slices.Contains(images, kind) && !res.Truncated {
		return reply{text: text, image: &sdk.ImageContent{MIMEType: kind, Data: res.Data}}, nil
	}
	return reply{text: text + ": encoding base64 returns its bytes"}, nil
}

// numbered returns text with a number in front of each line.
func numbered(text string, first int) string {
	if text == "" {
		return ""
	}
	var b strings.Builder
	b.Grow(len(text) + len(text)/8)
	for line := range strings.SplitAfterSeq(strings.TrimSuffix(text, "\n"), "\n") {
		b.WriteString(strconv.Itoa(first))
		b.WriteByte('\t')
		b.WriteString(line)
		first++
	}
	return b.String()
}

func (c *call) write(ctx context.Context, in writeIn) (reply, *writeOut, error) {
	if in.Path == "" {
		return reply{}, nil, errors.New("path is empty")
	}
	content := io.Reader(bytes.NewReader(c.contentOf(&in)))
	switch in.Encoding {
	case "", "utf-8":
	case "base64":
		content = base64.NewDecoder(base64.StdEncoding, content)
	default:
		return reply{}, nil, fmt.Errorf("encoding %q: it must be utf-8 or base64", in.Encoding)
	}
	res, err := c.changing(ctx, &filecall.Request{Op: filecall.OpWrite, Path: in.Path}, content)
	if bad, is := errors.AsType[*fileclient.BadContent](err); is {
		err = fmt.Errorf("content is not base64: %w", bad.Unwrap())
	}
	if err != nil {
		return reply{}, nil, err
	}
	out := &writeOut{res.Path, res.Size, res.Created}
	what := "replaced"
	if out.Created {
		what = "created"
	}
	return reply{text: fmt.Sprintf("%s %s, %d bytes", what, in.Path, out.Size)}, out, nil
}

func (c *call) edit(ctx context.Context, in editIn) (reply, *editOut, error) {
	if in.Path == "" {
		return reply{}, nil, errors.New("path is empty")
	}
	res, err := c.changing(ctx, &filecall.Request{Op: filecall.OpEdit, Path: in.Path, Old: in.Old, New: in.New, All: in.All}, nil)
	if err != nil {
		return reply{}, nil, err
	}
	out := &editOut{res.Path, res.Size, res.Count, res.Lines}
	text := fmt.Sprintf("edited %s, line %d", in.Path, first(res.Lines))
	if out.Count > 1 {
		text = fmt.Sprintf("edited %s, %d replacements, the first on line %d", in.Path, out.Count, first(res.Lines))
	}
	return reply{text: text}, out, nil
}

// first returns the first of some lines, which come from the sandbox.
func first(lines []int) int {
	if len(lines) == 0 {
		return 0
	}
	return lines[0]
}

// bracketed returns a note as the text of a result has it.
func bracketed(note string) string {
	if note == "" {
		return ""
	}
	return "[" + note + "]"
}

func (c *call) list(ctx context.Context, in listIn) (reply, *listOut, error) {
	most, err := count("max_entries", in.Max, 1000, maxEntries)
	if err != nil {
		return reply{}, nil, err
	}
	depth, err := count("depth", in.Depth, 1, 100)
	if err != nil {
		return reply{}, nil, err
	}
	res, err := c.inside(ctx, &filecall.Request{Op: filecall.OpTree, Path: in.Path, Depth: depth, Max: most, MaxBytes: MaxOutput}, nil)
	if err != nil {
		return reply{}, nil, err
	}
	out := &listOut{Path: res.Path, Entries: []entry{}, Truncated: res.Truncated}
	var b strings.Builder
	for _, e := range res.Entries {
		out.Entries = append(out.Entries, entry(e))
		switch e.Type {
		case "directory":
			fmt.Fprintf(&b, "%s/\n", e.Name)
		case "link":
			fmt.Fprintf(&b, "%s -> %s\n", e.Name, e.Target)
		default:
			fmt.Fprintf(&b, "%s\t%d\n", e.Name, e.Size)
		}
	}
	switch {
	case res.Truncated:
		out.Note = "there are more: name a smaller directory, or raise max_entries"
	case b.Len() == 0:
		out.Note = "the directory is empty"
	}
	return reply{text: b.String() + bracketed(out.Note)}, out, nil
}

func (c *call) glob(ctx context.Context, in globIn) (reply, *globOut, error) {
	most, err := count("max_results", in.Max, 1000, maxEntries)
	if err != nil {
		return reply{}, nil, err
	}
	res, err := c.inside(ctx, &filecall.Request{Op: filecall.OpGlob, Path: in.Path, Pattern: in.Pattern, Max: most, MaxBytes: MaxOutput}, nil)
	if err != nil {
		return reply{}, nil, err
	}
	out := &globOut{Files: append([]string{}, res.Names...), Truncated: res.Truncated}
	text := strings.Join(out.Files, "\n")
	switch {
	case res.Truncated:
		text, out.Note = text+"\n", "there are more: narrow the pattern, or raise max_results"
	case text == "":
		out.Note = "no file matches"
	}
	return reply{text: text + bracketed(out.Note)}, out, nil
}

func (c *call) grep(ctx context.Context, in grepIn) (reply, *grepOut, error) {
	most, err := count("max_results", in.Max, 200, maxEntries)
	if err != nil {
		return reply{}, nil, err
	}
	if in.Context < 0 || in.Context > 50 {
		return reply{}, nil, fmt.Errorf("context %d: it must be from 0 to 50", in.Context)
	}
	if in.Pattern == "" {
		return reply{}, nil, errors.New("pattern is empty")
	}
	res, err := c.inside(ctx, &filecall.Request{
		Op: filecall.OpGrep, Path: in.Path, Pattern: in.Pattern, Files: in.Glob, IgnoreCase: in.IgnoreCase, Fixed: in.Fixed,
		Context: in.Context, NamesOnly: in.FilesOnly, Max: most, MaxBytes: defaultRead,
	}, nil)
	if err != nil {
		return reply{}, nil, err
	}
	out := &grepOut{Matches: []match{}, Truncated: res.Truncated, Binary: res.SkippedBinary, Skipped: res.Skipped}
	var b strings.Builder
	for i, m := range res.Matches {
		out.Matches = append(out.Matches, match(m))
		if last := i - 1; in.Context > 0 && last >= 0 && (res.Matches[last].Path != m.Path || res.Matches[last].Line+1 < m.Line) {
			b.WriteString("--\n")
		}
		switch {
		case in.FilesOnly:
			fmt.Fprintf(&b, "%s:%d\n", m.Path, m.Count)
		case m.Context:
			fmt.Fprintf(&b, "%s-%d-%s\n", m.Path, m.Line, m.Text)
		default:
			fmt.Fprintf(&b, "%s:%d:%s\n", m.Path, m.Line, m.Text)
		}
	}
	switch {
	case res.Truncated:
		out.Note = "there may be more: narrow path, glob or pattern, or raise max_results"
	case len(res.Matches) == 0:
		out.Note = "no line matches"
	}
	b.WriteString(bracketed(out.Note))
	endLine(&b)
	if res.Skipped > 0 {
		fmt.Fprintf(&b, "[%d files or directories could not be read]\n", res.Skipped)
	}
	return reply{text: strings.TrimSuffix(b.String(), "\n")}, out, nil
}
