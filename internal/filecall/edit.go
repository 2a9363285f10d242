package filecall

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
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
		return "", false, errorf(KindMissing, "a symbolic link to %s, which does not exist: write to that path instead", to)
	}
	return real, true, err
}

// save makes b the content of the file at path, or of that which the link at path leads to.
// It returns the file.
func save(path string, b []byte) (real string, created bool, err error) {
	real, exists, err := target(path)
	if err != nil {
		return "", false, err
	}
	return real, !exists, archive.Put(bytes.NewReader(b), real, int64(len(b)))
}

// load returns the content of a file in which text can be replaced.
func load(path string) ([]byte, error) {
	f, size, err := archive.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxText+1))
	if size = max(size, int64(len(b))); err == nil && size > MaxText {
		cause := fmt.Sprintf("the file has %d bytes or more: files of up to %d can be edited", size, MaxText)
		err = &Error{KindTooLarge, fmt.Sprintf("%q: %s", path, cause), cause}
	}
	return b, err
}

// maxLinesNamed is how many lines an answer of edit names.
const maxLinesNamed = 20

// edit replaces an exact text for an agent's tool.
func edit(req *Request, res *Reply) error {
	switch {
	case req.Old == "":
		return errorf(KindInvalid, "old_string is empty: to create or replace a file, write it")
	case req.Old == req.New:
		return errorf(KindInvalid, "old_string and new_string are the same: nothing would change")
	}
	b, err := load(req.Path)
	if err != nil {
		return err
	}
	text := string(b)
	res.Count, res.Lines = strings.Count(text, req.Old), linesOf(text, req.Old, maxLinesNamed)
	switch {
	case res.Count == 0:
		return errorf(KindNoMatch, "old_string is not in the file%s", nearly(text, req.Old))
	case res.Count > 1 && !req.All:
		return errorf(KindAmbiguous, "old_string is in the file %d times, on lines %s: give more of the text around it, or set replace_all", res.Count, join(res.Lines, res.Count))
	}
	if replacedSize(b, res.Count, req.Old, req.New) > MaxText {
		return errorf(KindTooLarge, "the file would have more than %d bytes, and files of up to that can be edited: change less of it", MaxText)
	}
	changed := []byte(strings.ReplaceAll(text, req.Old, req.New))
	res.Size = int64(len(changed))
	res.Path, _, err = save(req.Path, changed)
	return err
}

// replacedSize is how large a file with content b is once n times old is new in it.
func replacedSize(b []byte, n int, old, new string) int { return len(b) + n*(len(new)-len(old)) }

// replace replaces text in files.
func replace(q *Request, r *Reply) error {
	r.Counts = map[string]int{}
	for _, p := range sorted(q.Replace) {
		t := q.Replace[p]
		if t.Old == "" {
			return wrong("%q: the text to replace is empty", p)
		}
		b, err := load(p)
		if err != nil {
			return err
		}
		n := bytes.Count(b, []byte(t.Old))
		r.Counts[p] = n
		if n == 0 {
			continue
		}
		if replacedSize(b, n, t.Old, t.New) > MaxText {
			return wrong("%q: it would have more than %d bytes", p, MaxText)
		}
		if _, _, err := save(p, bytes.ReplaceAll(b, []byte(t.Old), []byte(t.New))); err != nil {
			return err
		}
	}
	return nil
}

// join lists lines, of which there are count.
func join(lines []int, count int) string {
	var all []string
	for _, n := range lines {
		all = append(all, strconv.Itoa(n))
	}
	if count > len(lines) {
		all = append(all, "...")
	}
	return strings.Join(all, ", ")
}

// patch replaces bytes of a file from an offset on, at which the file may end.
func patch(q *Request, r *Reply) error {
	b, err := load(q.Path)
	if err != nil {
		return err
	}
	if q.Offset < 0 || q.Offset > int64(len(b)) {
		return wrong("%q: offset %d: the file has %d bytes", q.Path, q.Offset, len(b))
	}
	if int(q.Offset)+len(q.Data) > MaxText {
		return wrong("%q: it would have more than %d bytes", q.Path, MaxText)
	}
	changed := append(b[:q.Offset:q.Offset], q.Data...)
	if end := len(changed); end < len(b) {
		changed = append(changed, b[end:]...)
	}
	r.Size = int64(len(changed))
	r.Path, _, err = save(q.Path, changed)
	return err
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
			return ": the text on line " + strconv.Itoa(have[i].line) + " differs from it in white space only: read the file again, and copy the text exactly"
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
