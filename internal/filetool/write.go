package filetool

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"wolffia/internal/archive"
)

// target returns the file that a write to path changes: that which a symbolic link leads to.
func target(path string) (real string, exists bool, err error) {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return path, false, nil
	case err != nil:
		return "", false, err
	case st.Mode().Type() != fs.ModeSymlink:
		return path, true, nil
	}
	real, err = filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		to, _ := os.Readlink(path)
		return "", false, errorf(Missing, "a symbolic link to %s, which does not exist: write to that path instead", to)
	}
	return real, true, err
}

func write(req *Request) (*Response, error) {
	path, exists, err := target(req.Path)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(req.Path, "/") {
		return nil, errorf(Invalid, "the path ends with a slash: name a file")
	}
	if err := archive.Put(bytes.NewReader(req.Data), path, int64(len(req.Data))); err != nil {
		return nil, err
	}
	return &Response{Path: path, Size: int64(len(req.Data)), Created: !exists}, nil
}

// maxLinesNamed is how many lines an answer of edit names.
const maxLinesNamed = 20

func edit(req *Request) (*Response, error) {
	switch {
	case req.Old == "":
		return nil, errorf(Invalid, "old_string is empty: to create or replace a file, write it")
	case req.Old == req.New:
		return nil, errorf(Invalid, "old_string and new_string are the same: nothing would change")
	}
	f, size, err := archive.OpenRegular(req.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > MaxEdit {
		return nil, errorf(TooLarge, "the file has %d bytes: files of up to %d can be edited", size, MaxEdit)
	}
	b, err := io.ReadAll(io.LimitReader(f, MaxEdit+1))
	if err != nil {
		return nil, err
	}
	if len(b) > MaxEdit {
		return nil, errorf(TooLarge, "the file has more than the %d bytes that can be edited", MaxEdit)
	}
	text := string(b)
	count := strings.Count(text, req.Old)
	lines := linesOf(text, req.Old, maxLinesNamed)
	switch {
	case count == 0:
		return nil, errorf(NoMatch, "old_string is not in the file%s", nearly(text, req.Old))
	case count > 1 && !req.All:
		return nil, errorf(Ambiguous, "old_string is in the file %d times, on lines %s: give more of the text around it, or set replace_all", count, join(lines, count))
	}
	changed := strings.ReplaceAll(text, req.Old, req.New)
	path, _, err := target(req.Path)
	if err != nil {
		return nil, err
	}
	if err := archive.Put(strings.NewReader(changed), path, int64(len(changed))); err != nil {
		return nil, err
	}
	return &Response{Path: path, Size: int64(len(changed)), Count: count, Lines: lines}, nil
}

// linesOf returns the lines on which the first occurrences of old in text begin.
func linesOf(text, old string, most int) (lines []int) {
	line, at := 1, 0
	for len(lines) < most {
		i := strings.Index(text[at:], old)
		if i < 0 {
			break
		}
		line += strings.Count(text[at:at+i], "\n")
		lines = append(lines, line)
		line += strings.Count(old, "\n")
		at += i + len(old)
	}
	return lines
}

// What nearly compares: so many bytes of a text with so many lines.
const (
	maxCompared = 1 << 20
	maxLines    = 500
)

// nearly returns what follows the message that old is not in text: where a text is that
// differs only in white space. It is empty without one.
func nearly(text, old string) string {
	if !strings.Contains(old, "\r") && strings.Contains(text, strings.ReplaceAll(old, "\n", "\r\n")) {
		return ": the file's lines end with \\r\\n, and those of old_string with \\n"
	}
	want, have := fields(old), fields(text[:min(len(text), maxCompared)])
	if len(want) == 0 || len(want) > maxLines {
		return ""
	}
	for i := 0; i+len(want) <= len(have); i++ {
		same := true
		for j := range want {
			if have[i+j].text != want[j].text {
				same = false
				break
			}
		}
		if same {
			return ": the text on line " + itoa(have[i].line) + " differs from it in white space only: read the file again, and copy the text exactly"
		}
	}
	return ": read the file again, and copy the text exactly, without line numbers"
}

// A field is a line of a text without white space around it, and its number.
type field struct {
	text string
	line int
}

// fields returns the lines of a text that have more than white space.
func fields(text string) (out []field) {
	line := 0
	for s := range strings.SplitSeq(text, "\n") {
		line++
		if s = strings.Join(strings.Fields(s), " "); s != "" {
			out = append(out, field{s, line})
		}
	}
	return out
}
