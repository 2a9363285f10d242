package filecall

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// tree makes files below a new directory, which becomes the current one.
func files(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// do does an operation as the program does: by JSON.
func do(t *testing.T, req Request) *Reply {
	t.Helper()
	if req.MaxBytes == 0 {
		req.MaxBytes = 1 << 20
	}
	if req.Max == 0 {
		req.Max = 1000
	}
	var out bytes.Buffer
	if err := Serve(&out, bytes.NewReader(asked(t, &req, string(req.Data)))); err != nil {
		t.Fatal(err)
	}
	res := new(Reply)
	if err := NewReceiver(&out).JSON(res, 1<<30); err != nil {
		t.Fatal(err)
	}
	return res
}

// fails does an operation that fails with an error of a kind, whose message contains part.
func fails(t *testing.T, req Request, kind, part string) {
	t.Helper()
	res := do(t, req)
	if res.Err == nil || res.Err.Kind != kind || !strings.Contains(res.Err.Message, part) || strings.Contains(res.Err.Cause, req.Path) && res.Err.Cause != "" {
		t.Errorf("%+v: %+v, want %s: %s", req, res.Err, kind, part)
	}
}

func TestRead(t *testing.T) {
	files(t, map[string]string{
		"a": "one\ntwo\nthree\nfour", "empty": "", "bin": "x\x00y", "latin": "caf\xe9\n", "wide": strings.Repeat("ä", 100) + "\nend\n",
		"long": strings.Repeat(strings.Repeat("x", 99)+"\n", 3000),
	})
	for _, c := range []struct {
		req  Request
		want Reply
	}{
		{Request{Path: "a"}, Reply{Text: "one\ntwo\nthree\nfour", First: 1, Last: 4, Total: 4, Next: 18}},
		{Request{Path: "a", Line: 2, Lines: 2}, Reply{Text: "two\nthree\n", First: 2, Last: 3, Total: 4, Truncated: true, Next: 14}},
		{Request{Path: "a", Line: 4, Lines: 9}, Reply{Text: "four", First: 4, Last: 4, Total: 4, Next: 18}},
		{Request{Path: "a", MaxBytes: 9}, Reply{Text: "one\ntwo\n", First: 1, Last: 2, Total: 4, Truncated: true, Next: 8}},
		{Request{Path: "a", Bytes: true, Offset: 4, MaxBytes: 5}, Reply{Text: "two\nt", Truncated: true, Next: 9}},
		{Request{Path: "empty"}, Reply{}},
		{Request{Path: "bin"}, Reply{Binary: true}},
		{Request{Path: "bin", Raw: true}, Reply{Binary: true, Data: []byte("x\x00y"), Next: 3}},
		{Request{Path: "latin"}, Reply{Text: "caf\ufffd\n", Lossy: true, First: 1, Last: 1, Total: 1, Next: 5}},
		{Request{Path: "wide", MaxBytes: 5}, Reply{Text: "ää", First: 1, Last: 1, Total: 2, Truncated: true, Cut: true, Next: 4}},
		{Request{Path: "wide", Bytes: true, MaxBytes: 5}, Reply{Text: "ää", Truncated: true, Next: 4}},
	} {
		c.req.Op = OpRead
		got := do(t, c.req)
		if got.Err != nil {
			t.Errorf("%+v: got %v, want nil", c.req, got.Err)
			continue
		}
		got.Path, got.Size = "", 0
		if fmt.Sprintf("%+v", *got) != fmt.Sprintf("%+v", c.want) {
			t.Errorf("%+v:\n got %+v\nwant %+v", c.req, *got, c.want)
		}
	}
	all := do(t, Request{Op: OpRead, Path: "long", Line: 2999})
	if all.First != 2999 || all.Last != 3000 || all.Total != 3000 || len(all.Text) != 200 {
		t.Errorf("do: got all %+v; want all.First == 2999 and all.Last == 3000 and all.Total == 3000 and len(all.Text) == 200", all)
	}
	fails(t, Request{Op: OpRead, Path: "a", Line: 5}, KindInvalid, "the file has 4 lines")
}

// What is not a regular file is neither read nor waited for.
func TestHostile(t *testing.T) {
	files(t, map[string]string{"d/f": "text"})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(unix.Mkfifo("fifo", 0o644))
	must(os.Symlink("loop", "loop"))
	must(os.Symlink("d/f", "link"))
	must(os.Symlink("nothing", "dangling"))
	for _, op := range []string{OpRead, OpEdit} {
		fails(t, Request{Op: op, Path: "fifo", Old: "a"}, KindNotRegular, "regular")
		fails(t, Request{Op: op, Path: "d", Old: "a"}, KindNotRegular, "regular")
		fails(t, Request{Op: op, Path: "/dev/zero", Old: "a"}, KindNotRegular, "regular")
		fails(t, Request{Op: op, Path: "nothing", Old: "a"}, KindMissing, "no such file")
		fails(t, Request{Op: op, Path: "d/f/x", Old: "a"}, KindNotDir, "not a directory")
		fails(t, Request{Op: op, Path: "loop", Old: "a"}, KindLoop, "too many")
		fails(t, Request{Op: op, Path: "a\x00b", Old: "a"}, KindName, "invalid")
	}
	fails(t, Request{Op: OpWrite, Path: "fifo"}, KindNotRegular, "regular")
	fails(t, Request{Op: OpWrite, Path: "d"}, KindNotRegular, "regular")
	fails(t, Request{Op: OpWrite, Path: "dangling"}, KindMissing, "link to nothing")
	fails(t, Request{Op: OpWrite, Path: "new/"}, KindInvalid, "slash")
	fails(t, Request{Op: OpWrite, Path: ""}, KindInvalid, "empty")
	fails(t, Request{Op: "format", Path: "/"}, KindInvalid, "does not exist")
	if res := do(t, Request{Op: OpWrite, Path: "link", Data: []byte("new")}); res.Err != nil || !strings.HasSuffix(res.Path, "d/f") {
		t.Errorf(`do: got res %+v; want res.Err == nil and res.Path ends with "d/f"`, res)
	}
	if st, err := os.Lstat("link"); err != nil || st.Mode().Type() != os.ModeSymlink {
		t.Error("the link was replaced", err)
	}
	if res := do(t, Request{Op: OpWrite, Path: "new/dir/file", Data: []byte("x")}); !res.Created || res.Size != 1 {
		t.Errorf("do: got res %+v; want res.Created and res.Size == 1", res)
	}
	if got := do(t, Request{Op: OpGrep, Path: ".", Pattern: "."}); len(got.Matches) != 2 {
		t.Errorf("links and the FIFO were searched: %+v", got)
	}
}

func TestEdit(t *testing.T) {
	files(t, map[string]string{"a": "x = 1\ny = 2\nx = 1\n", "crlf": "a\r\nb\r\n", "latin": "caf\xe9 = 1\n"})
	if err := os.Chmod("a", 0o755); err != nil {
		t.Fatal(err)
	}
	fails(t, Request{Op: OpEdit, Path: "a", Old: "z", New: "y"}, KindNoMatch, "read the file again")
	fails(t, Request{Op: OpEdit, Path: "a", Old: "y=2", New: "y"}, KindNoMatch, "not in the file")
	fails(t, Request{Op: OpEdit, Path: "a", Old: "\ty =  2 ", New: "y"}, KindNoMatch, "line 2 differs from it in white space")
	fails(t, Request{Op: OpEdit, Path: "crlf", Old: "a\nb", New: "c"}, KindNoMatch, `\r\n`)
	fails(t, Request{Op: OpEdit, Path: "a", Old: "x = 1", New: "y"}, KindAmbiguous, "2 times, on lines 1, 3")
	fails(t, Request{Op: OpEdit, Path: "a", Old: "x", New: "x"}, KindInvalid, "same")
	fails(t, Request{Op: OpEdit, Path: "a", Old: "1", New: strings.Repeat("x", MaxText/2), All: true}, KindTooLarge, "more than")
	fails(t, Request{Op: OpEdit, Path: "a", Old: "", New: "x"}, KindInvalid, "empty")
	if res := do(t, Request{Op: OpEdit, Path: "a", Old: "x = 1", New: "z = 3", All: true}); res.Count != 2 || fmt.Sprint(res.Lines) != "[1 3]" {
		t.Errorf(`do: got res %+v; want res.Count == 2 and res.Lines == "[1 3]"`, res)
	}
	if res := do(t, Request{Op: OpEdit, Path: "latin", Old: " = 1", New: " = 2"}); res.Count != 1 {
		t.Errorf("do: got res %+v; want res.Count == 1", res)
	}
	for name, want := range map[string]string{"a": "z = 3\ny = 2\nz = 3\n", "latin": "caf\xe9 = 2\n"} {
		if b, err := os.ReadFile(name); err != nil || string(b) != want {
			t.Errorf("%s: got %q, %v; want %q, nil", name, b, err, want)
		}
	}
	if st, err := os.Stat("a"); err != nil || st.Mode().Perm() != 0o755 {
		t.Error(st.Mode(), err)
	}
}

func TestList(t *testing.T) {
	files(t, map[string]string{"b/c/d": "1234", "b/e": "", "a": "12", ".git/config": ""})
	if err := os.Symlink("a", "l"); err != nil {
		t.Fatal(err)
	}
	text := func(req Request) string {
		req.Op = OpTree
		res := do(t, req)
		s := ""
		for _, e := range res.Entries {
			s += fmt.Sprintf("%s %s %d %s; ", e.Name, e.Type, e.Size, e.Target)
		}
		return fmt.Sprint(s, res.Truncated, res.Err)
	}
	for _, c := range []struct {
		req  Request
		want string
	}{
		{Request{Path: "."}, ".git directory 0 ; a file 2 ; b directory 0 ; l link 0 a; false<nil>"},
		{Request{Path: ".", Depth: 2}, ".git directory 0 ; a file 2 ; b directory 0 ; b/c directory 0 ; b/e file 0 ; l link 0 a; false<nil>"},
		{Request{Path: "b", Max: 1}, "c directory 0 ; true<nil>"},
		{Request{Path: "b", MaxBytes: 10}, "true<nil>"},
	} {
		if got := text(c.req); strings.ReplaceAll(got, " <nil>", "<nil>") != c.want {
			t.Errorf("%+v:\n got %s\nwant %s", c.req, got, c.want)
		}
	}
	fails(t, Request{Op: OpTree, Path: "a"}, KindNotDir, "not a directory")
}

func TestGlob(t *testing.T) {
	files(t, map[string]string{"a.go": "", "b/c.go": "", "b/d/e.go": "", "b/f.txt": "", ".git/x.go": "", "b/[x].go": ""})
	for _, c := range []struct{ pattern, path, want string }{
		{"*.go", ".", "a.go"},
		{"**/*.go", ".", "a.go b/[x].go b/c.go b/d/e.go"},
		{"b/*.{go,txt}", ".", "b/[x].go b/c.go b/f.txt"},
		{"**/e.go", "b", "b/d/e.go"},
		{".git/*", ".", ".git/x.go"},
		{"nothing*", ".", ""},
	} {
		res := do(t, Request{Op: OpGlob, Path: c.path, Pattern: c.pattern})
		if got := strings.Join(res.Names, " "); got != c.want || res.Err != nil {
			t.Errorf("%s in %s: %s, %v; want %s", c.pattern, c.path, got, res.Err, c.want)
		}
	}
	if res := do(t, Request{Op: OpGlob, Path: ".", Pattern: "**", Max: 2}); len(res.Names) != 2 || !res.Truncated {
		t.Errorf("do: got res %+v; want len(res.Names) == 2 and res.Truncated", res)
	}
	fails(t, Request{Op: OpGlob, Path: ".", Pattern: "[a"}, KindInvalid, "must be like")
	fails(t, Request{Op: OpGlob, Path: "nothing", Pattern: "*"}, KindMissing, "no such file")
}

func TestGrep(t *testing.T) {
	files(t, map[string]string{
		"a.go": "one\nTwo\nthree\nfour\ntwo two\nsix", "b/c.txt": "two\r\n", "bin": "two\x00", ".git/x": "two",
		"long": strings.Repeat("x", 3000) + "two" + strings.Repeat("y", 3000) + "\n",
	})
	text := func(req Request) string {
		req.Op = OpGrep
		res := do(t, req)
		s := ""
		for _, m := range res.Matches {
			s += fmt.Sprintf("%s:%d:%s:%v:%d\n", m.Path, m.Line, m.Text, m.Context, m.Count)
		}
		if res.Err != nil {
			return res.Err.Message
		}
		return s + fmt.Sprint(res.Truncated, res.SkippedBinary)
	}
	for _, c := range []struct {
		req  Request
		want string
	}{
		{Request{Path: ".", Pattern: "^t[a-z]+$", Files: "*.{go,txt}"}, "a.go:3:three:false:0\nb/c.txt:1:two:false:0\nfalse 0"},
		{Request{Path: "a.go", Pattern: "TWO", IgnoreCase: true, Context: 1}, "a.go:1:one:true:0\na.go:2:Two:false:0\na.go:3:three:true:0\na.go:4:four:true:0\na.go:5:two two:false:0\na.go:6:six:true:0\nfalse 0"},
		{Request{Path: ".", Pattern: "two", NamesOnly: true}, "a.go:0::false:1\nb/c.txt:0::false:1\nlong:0::false:1\nfalse 1"},
		{Request{Path: ".", Pattern: "two", Max: 1}, "a.go:5:two two:false:0\ntrue 0"},
		{Request{Path: ".", Pattern: "t.o", Fixed: true}, "false 1"},
		{Request{Path: ".git", Pattern: "two"}, ".git/x:1:two:false:0\nfalse 0"},
		{Request{Path: ".", Pattern: "two", Files: "b/**"}, "b/c.txt:1:two:false:0\nfalse 0"},
	} {
		if got := text(c.req); got != c.want {
			t.Errorf("%+v:\n got %s\nwant %s", c.req, got, c.want)
		}
	}
	if got := text(Request{Path: "long", Pattern: "two"}); len(got) > 600 || !strings.Contains(got, "xtwoy") {
		t.Errorf("text: got %s; want len(got) <= 600 and got contains xtwoy", got)
	}
	fails(t, Request{Op: OpGrep, Path: ".", Pattern: "("}, KindInvalid, "RE2")
	fails(t, Request{Op: OpGrep, Path: ".", Pattern: "x", Files: "[a"}, KindInvalid, "must be like")
}

// FuzzDo: no request makes the program fail, or the answer larger than was asked for.
func FuzzDo(f *testing.F) {
	f.Add(`{"op":"read","path":"f","line":2,"maxBytes":10}`)
	f.Add(`{"op":"grep","path":".","pattern":"(a|b)*","files":"**/*.{a,b}","maxBytes":100,"max":3,"context":2}`)
	f.Add(`{"op":"glob","path":".","pattern":"{a,b}/**/[!c]","maxBytes":100,"max":3}`)
	f.Add(`{"op":"edit","path":"f","old":"a","new":"b","maxBytes":100}`)
	dir := f.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("a\nb\n\xff\n"), 0o644); err != nil {
		f.Fatal(err)
	}
	f.Chdir(dir)
	f.Fuzz(func(t *testing.T, text string) {
		var req Request
		if json.Unmarshal([]byte(text), &req) != nil || !slices.Contains([]string{OpRead, OpTree, OpGlob, OpGrep}, req.Op) {
			return
		}
		req.MaxBytes, req.Max, req.Path = max(0, min(req.MaxBytes, 1000)), max(0, min(req.Max, 100)), "f"
		if req.Op != OpRead && req.Op != OpGrep {
			req.Path = "."
		}
		if strings.Contains(req.Pattern, "/") { // only here
			return
		}
		if res := Do(&req); len(res.Text)+len(res.Data) > 3*1000 || len(res.Matches) > 1000 {
			t.Errorf("Do: got res %+v; want len(res.Text)+len(res.Data) <= 3*1000 and len(res.Matches) <= 1000", res)
		}
	})
}
