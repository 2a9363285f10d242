package opensandbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A part is one of an upload.
type part struct{ name, content string }

// upload returns the body of an upload, and its type.
func upload(t *testing.T, parts ...part) (*bytes.Buffer, string) {
	t.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for _, p := range parts {
		w, err := form.CreatePart(textproto.MIMEHeader{"Content-Disposition": {fmt.Sprintf("form-data; name=%q; filename=%q", p.name, p.name)}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(p.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := form.Close(); err != nil {
		t.Fatal(err)
	}
	return &b, form.FormDataContentType()
}

// put uploads files.
func (w *world) put(t *testing.T, execd string, status int, code string, parts ...part) {
	t.Helper()
	body, media := upload(t, parts...)
	if got, _, text := w.Do("POST", execd+"/files/upload", body, "Content-Type", media); got != status || !strings.Contains(text, code) {
		t.Errorf("%.300v: %d %s, want %d %s", parts, got, text, status, code)
	}
}

// A file as the API has it.
type file struct {
	Path, Type, Owner, Group string
	Size                     int64
	Mode                     int
}

func TestFiles(t *testing.T) {
	w := newWorld(t)
	_, execd := w.create("")
	big := strings.Repeat("0123456789abcdef", 300_000)
	w.put(t, execd, 200, "",
		part{"metadata", `{"path":"/workspace/d/a.txt","mode":640}`}, part{"file", "one\ntwo\nthree\n"},
		part{"metadata", `{"path":"b.bin"}`}, part{"metadata", `{"path":"/tmp/empty","mode":755}`}, part{"file", big}, part{"file", ""})
	if text, err := os.ReadFile(filepath.Join(w.Codebase, "b.bin")); err != nil || string(text) != big {
		t.Errorf("a relative path is below the mount point: %d bytes, %v", len(text), err)
	}
	var infos map[string]file
	w.OK(json.Unmarshal([]byte(w.is("GET", execd+"/files/info?path=/workspace/d/a.txt&path=/tmp/empty&path=d", "", 200, "modified_at")), &infos))
	if f := infos["/workspace/d/a.txt"]; f.Path != "/workspace/d/a.txt" || f.Size != 14 || f.Mode != 640 || f.Type != "file" || f.Owner == "" {
		t.Errorf("info: %+v", infos)
	}
	if infos["d"].Type != "directory" || infos["/tmp/empty"].Mode != 755 {
		t.Errorf("info: %+v", infos)
	}
	for _, c := range []struct {
		query, header string
		status        int
		content       string
		ranges        string
	}{
		{"path=d/a.txt", "", 200, "one\ntwo\nthree\n", ""},
		{"path=/workspace/b.bin", "", 200, big, ""},
		{"path=d/a.txt", "bytes=4-6", 206, "two", "bytes 4-6/14"},
		{"path=d/a.txt", "bytes=8-", 206, "three\n", "bytes 8-13/14"},
		{"path=d/a.txt", "bytes=-3", 206, "ee\n", "bytes 11-13/14"},
		{"path=d/a.txt", "bytes=-100", 206, "one\ntwo\nthree\n", "bytes 0-13/14"},
		{"path=d/a.txt", "bytes=0-999", 206, "one\ntwo\nthree\n", "bytes 0-13/14"},
		{"path=d/a.txt", "bytes=6-4", 200, "one\ntwo\nthree\n", ""},
		{"path=d/a.txt", "lines=1", 200, "one\ntwo\nthree\n", ""},
		{"path=d/a.txt", "bytes=14-", 416, `"INVALID_FILE"`, "bytes */14"},
		{"path=/tmp/empty", "bytes=0-", 200, "", ""},
		{"path=/tmp/empty", "", 200, "", ""},
		{"path=d/a.txt&offset=2", "", 200, "two\nthree\n", ""},
		{"path=d/a.txt&offset=2&limit=1", "", 200, "two\n", ""},
		{"path=d/a.txt&offset=9", "", 200, "", ""},
		{"path=/proc/self/comm", "", 200, "guest\n", ""},
		{"path=d/a.txt&offset=0", "", 400, "INVALID_PARAMETER", ""},
		{"path=d/missing", "", 404, "FILE_NOT_FOUND", ""},
		{"path=d/missing&offset=1", "", 404, "FILE_NOT_FOUND", ""},
		{"path=d/a.txt/below", "", 404, "FILE_NOT_FOUND", ""},
		{"path=d", "", 400, "INVALID_FILE", ""},
		{"path=/dev/zero", "", 400, "INVALID_FILE", ""},
		{"path=secret", "", 404, "FILE_NOT_FOUND", ""},
		{"", "", 400, "MISSING_QUERY", ""},
		{"path=%00", "", 400, "INVALID_FILE", ""},
	} {
		var headers []string
		if c.header != "" {
			headers = []string{"Range", c.header}
		}
		status, header, text := w.Do("GET", execd+"/files/download?"+c.query, nil, headers...)
		if status != c.status || status < 400 && text != c.content || !strings.Contains(text, c.content) || header.Get("Content-Range") != c.ranges {
			t.Errorf(`%s %s: got status %d, header %v, text %.200q; want status == %d and (status >= 400 or text == %.200q) and text contains %.200q and header.Get("Content-Range") == %v`,
				c.query, c.header, status, header, text, c.status, c.content, c.content, c.ranges)
		}
	}

	// What is on the host of a hidden name is not shown and not changed.
	w.OK(os.WriteFile(filepath.Join(w.Codebase, "secret"), []byte("hidden"), 0o644))
	w.is("GET", execd+"/files/download?path=secret", "", 404, "FILE_NOT_FOUND")
	if text := w.is("GET", execd+"/files/search?path=/workspace", "", 200, "a.txt"); strings.Contains(text, "secret") {
		t.Errorf("a hidden file is found: %s", text)
	}

	w.is("POST", execd+"/files/mv", `[{"src":"d/a.txt","dest":"d/b.txt"},{"src":"d/b.txt","dest":"/tmp/c.txt"}]`, 200, "") // another file system
	w.is("POST", execd+"/files/mv", `[{"src":"d/a.txt","dest":"d/x"}]`, 404, "FILE_NOT_FOUND")
	w.run(execd+"/command", m{"command": "echo moved >/tmp/before"})
	w.is("POST", execd+"/files/mv", `[{"src":"/tmp/before","dest":"/tmp/new/dir/after"}]`, 200, "")
	w.is("GET", execd+"/files/download?path=/tmp/new/dir/after", "", 200, "moved\n")
	w.is("POST", execd+"/files/mv", `[{"src":"/tmp/c.txt","dest":"/tmp/empty"}]`, 409, "FILE_EXISTS")
	w.is("POST", execd+"/files/mv", `[{"src":"/tmp/c.txt","dest":"b.bin"}]`, 409, "FILE_EXISTS")
	w.is("GET", execd+"/files/info?path=/tmp/c.txt", "", 200, `"mode":640`)
	w.is("POST", execd+"/files/replace", `{"/tmp/c.txt":{"old":"one","new":"1"}}`, 200, "")
	w.is("POST", execd+"/files/replace?verbose=true", `{"/tmp/./c.txt":{"old":"e","new":"EE"},"b.bin":{"old":"zz","new":""}}`, 200,
		`{"/tmp/./c.txt":{"replacedCount":2},"b.bin":{"replacedCount":0}}`)
	w.is("POST", execd+"/files/replace", `{"/tmp/c.txt":{"old":"","new":"x"}}`, 400, "INVALID_FILE")
	w.is("POST", execd+"/files/replace", `{"/tmp/none":{"old":"a","new":"x"}}`, 404, "FILE_NOT_FOUND")
	w.is("POST", execd+"/files/replace", `{"/tmp/c.txt":{"old":"1","new":"x"},"/tmp/./c.txt":{"old":"1","new":"y"}}`, 400, "names /tmp/c.txt twice")
	w.is("POST", execd+"/files/permissions", `{"/tmp/c.txt":{"mode":600},"/tmp//c.txt":{"mode":644}}`, 400, "names /tmp/c.txt twice")
	w.run(execd+"/command", m{"command": `printf x >"/tmp/$(printf 'u\357\277\275')"`}) // its last character is U+FFFD
	w.is("DELETE", execd+"/files?path=/tmp/u%FF", "", 400, "UTF-8")
	w.is("GET", execd+"/files/info?path=/tmp/u%EF%BF%BD", "", 200, "")
	if _, _, text := w.Do("GET", execd+"/files/download?path=/tmp/c.txt", nil); text != "1\ntwo\nthrEEEE\n" {
		t.Errorf("replaced: %q", text)
	}
	w.is("POST", execd+"/files/permissions", `{"/tmp/c.txt":{"mode":600}}`, 200, "")
	w.is("GET", execd+"/files/info?path=/tmp/c.txt", "", 200, `"mode":600`)
	w.is("POST", execd+"/files/permissions", `{"/tmp/c.txt":{"mode":689}}`, 400, "INVALID_FILE_METADATA")
	w.is("POST", execd+"/files/permissions", `{"/tmp/c.txt":{"owner":"nobody-here"}}`, 400, "INVALID_FILE")
	w.is("POST", execd+"/files/permissions", `{"/tmp/none":{}}`, 404, "FILE_NOT_FOUND")
	w.is("DELETE", execd+"/files?path=/tmp/c.txt&path=/tmp/empty", "", 200, "")
	w.is("DELETE", execd+"/files?path=/tmp/c.txt", "", 404, "FILE_NOT_FOUND")
	w.is("DELETE", execd+"/files?path=d", "", 400, "INVALID_FILE")
	w.is("DELETE", execd+"/files?path=/tmp/u&path=/tmp/x;y", "", 400, "INVALID_PARAMETER")
	w.is("DELETE", execd+"/files", "", 200, "")
	w.is("GET", execd+"/files/info", "", 200, "{}")
}

func TestDirectories(t *testing.T) {
	w := newWorld(t)
	_, execd := w.create("")
	w.is("POST", execd+"/directories", `{"/tmp/x/y/z":{"mode":700},"/tmp/x/w":{}}`, 200, "")
	w.is("POST", execd+"/directories", `{"/etc/passwd":{}}`, 409, "FILE_EXISTS")
	w.is("GET", execd+"/directories/list?path=/tmp/x/w&depth=0", "", 200, "[]")
	w.run(execd+"/command", m{"command": "cd /tmp/x; touch a.txt y/b.txt y/z/c.md; ln -s y link; mkfifo fifo; ln -s /workspace out; echo kept >/workspace/kept"})
	names := func(path string, query ...string) string {
		var list []file
		w.OK(json.Unmarshal([]byte(w.is("GET", execd+path+"?"+strings.Join(query, "&"), "", 200, "")), &list))
		var all []string
		for _, f := range list {
			all = append(all, strings.TrimPrefix(f.Path, "/tmp/x/")+":"+f.Type)
		}
		return strings.Join(all, " ")
	}
	for query, want := range map[string]string{
		"/directories/list?path=/tmp/x":                                   "a.txt:file fifo:other link:symlink out:symlink w:directory y:directory",
		"/directories/list?path=/tmp/x&depth=2":                           "a.txt:file fifo:other link:symlink out:symlink w:directory y:directory y/b.txt:file y/z:directory",
		"/directories/list?path=/tmp/x/w":                                 "",
		"/files/search?path=/tmp/x&pattern=*.txt":                         "a.txt:file y/b.txt:file",
		"/files/search?path=/tmp/x&pattern=" + url.QueryEscape("[a-c].*"): "a.txt:file y/b.txt:file y/z/c.md:file",
		"/files/search?path=/tmp/x/y&pattern=**":                          "y/b.txt:file y/z/c.md:file",
		"/files/search?path=/tmp/x/y":                                     "y/b.txt:file y/z/c.md:file",
		"/files/search?path=/tmp/x&pattern=**/*.txt":                      "a.txt:file y/b.txt:file",
		"/files/search?path=/tmp/x&pattern=y/*.txt":                       "y/b.txt:file",
	} {
		path, q, _ := strings.Cut(query, "?")
		if got := names(path, q); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	if got := names("/directories/list", "path=/tmp/x/link"); got != "link/b.txt:file link/z:directory" {
		t.Errorf("by a link: %s", got)
	}
	w.is("GET", execd+"/directories/list?path=/tmp/x/a.txt", "", 400, "INVALID_FILE")
	w.is("GET", execd+"/directories/list?path=/tmp/none", "", 404, "FILE_NOT_FOUND")
	w.is("GET", execd+"/files/search?path=/tmp/x&pattern=%5B", "", 400, "INVALID_FILE")
	w.is("GET", execd+"/files/info?path=/tmp/x/y/z", "", 200, `"mode":700`)
	w.is("DELETE", execd+"/directories?path=/tmp/x/link", "", 400, "INVALID_FILE")
	w.is("DELETE", execd+"/directories?path=/tmp/x", "", 200, "")
	w.is("GET", execd+"/files/info?path=/tmp/x", "", 404, "FILE_NOT_FOUND")
	if text, err := os.ReadFile(filepath.Join(w.Codebase, "kept")); err != nil || string(text) != "kept\n" {
		t.Errorf("what a link leads to: %q, %v", text, err)
	}
	w.is("GET", execd+"/metrics", "", 200, `"cpu_count":`)
}

func TestUploadRefuses(t *testing.T) {
	w := newWorld(t)
	_, execd := w.create("")
	meta := func(path string) part { return part{"metadata", `{"path":"` + path + `"}`} }
	w.put(t, execd, 400, "INVALID_FILE_METADATA", part{"file", "x"})
	w.put(t, execd, 400, "INVALID_FILE_METADATA", part{"metadata", "{"}, part{"file", "x"})
	w.put(t, execd, 400, "INVALID_FILE_METADATA", part{"metadata", `{"path":"a","mode":999}`}, part{"file", "x"})
	w.put(t, execd, 400, "INVALID_FILE_METADATA", part{"metadata", `{}`}, part{"file", "x"})
	w.put(t, execd, 400, "INVALID_FILE_CONTENT", meta("a"))
	w.put(t, execd, 400, "INVALID_FILE", part{"other", ""})
	w.put(t, execd, 403, "DENIED", meta("/usr/x"), part{"file", strings.Repeat("x", 8<<20)})
	w.put(t, execd, 400, "INVALID_FILE", meta("/tmp"), part{"file", "x"})
	w.put(t, execd, 400, "the name or the path is too long", meta("/tmp/"+strings.Repeat("n", 300)), part{"file", "x"})
	w.is("POST", execd+"/files/upload", "{}", 400, "multipart")
	// A body that is cut off leaves what was there.
	w.put(t, execd, 200, "", meta("/tmp/f"), part{"file", "old"})
	body, media := upload(t, meta("/tmp/f"), part{"file", strings.Repeat("new", 1<<20)})
	body.Truncate(body.Len() / 2)
	if status, _, text := w.Do("POST", execd+"/files/upload", body, "Content-Type", media); status != 400 || !strings.Contains(text, "INVALID_FILE_CONTENT") {
		t.Errorf("cut off: %d %s", status, text)
	}
	if got := output(w.run(execd+"/command", m{"command": "cat /tmp/f; ls -A /tmp"}), "stdout"); got != "old\n" && got != "oldf\n" {
		t.Errorf("after a cut: %q", got)
	}
	// An owner that no file can have inside.
	w.put(t, execd, 400, "nobody-here", part{"metadata", `{"path":"/tmp/owned","owner":"nobody-here"}`}, part{"file", "x"})
	w.put(t, execd, 400, "has its own user and group only", part{"metadata", `{"path":"/tmp/owned","owner":"root"}`}, part{"file", "x"})
	// A link is replaced, not followed.
	w.OK(os.WriteFile(filepath.Join(w.Codebase, "victim"), []byte("kept"), 0o666))
	w.run(execd+"/command", m{"command": "ln -s victim link"})
	w.put(t, execd, 200, "", meta("link"), part{"file", "new"})
	if text, err := os.ReadFile(filepath.Join(w.Codebase, "victim")); err != nil || string(text) != "kept" {
		t.Errorf("what a link leads to: %q, %v", text, err)
	}
}
