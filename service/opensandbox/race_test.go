package opensandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/test/testenv"
)

// While a program inside swaps directories for links, no request about files reads or writes
// on the host what is outside of the codebase.
func TestSwapsOverHTTP(t *testing.T) {
	w := newWorld(t)
	outside := t.TempDir()
	w.OK(os.Chmod(outside, 0o777))
	w.OK(os.WriteFile(filepath.Join(outside, "f"), []byte("outside"), 0o666))
	w.OK(os.WriteFile(filepath.Join(w.Codebase, "secret"), []byte("outside"), 0o666))
	_, execd := w.create("")
	events := w.run(execd+"/command", m{"background": true, "command": `cd /workspace; mkdir d; echo inside >d/f
while :; do ln -sfn ` + outside + ` x; ln -sfn d x; ln -sfn secret y; ln -sfn d/f y; rm -f x; mkdir x; echo inside >x/f; rm -r x; done`})
	// The calls of the service itself: an owner's sandbox sees the same codebase.
	owner := `"organizationId":"o","projectId":"p","userId":"u"`
	status, made := w.native("ensureSandbox", "{"+owner+"}")
	_, made, _ = strings.Cut(made, `"sandboxId":"`)
	if status != 201 || len(made) < 12 {
		t.Fatalf(`native "ensureSandbox": got status %d, made %s; want status == 201 and len(made) >= 12`, status, made)
	}
	owner += `,"sandboxId":"` + made[:12] + `"`
	for range testenv.Some(60) {
		for _, path := range []string{"/workspace/x/f", "y", "x/../secret"} {
			for _, part := range []string{"", `,"offset":0,"bytes":7`, `,"offset":-7`} {
				if status, text := w.native("readFile", "{"+owner+`,"path":"`+path+`"`+part+`}`); status == 200 && strings.Contains(text, "outside") {
					t.Fatalf("readFile %s%s: %q", path, part, text)
				}
			}
		}
		w.native("writeFiles", "{"+owner+`,"files":{"x/f":{"content":"inside\n"},"x/new":{"content":"inside\n"},"y":{"content":"inside\n"}}}`)
		if _, text := w.native("executeBash", "{"+owner+`,"cwd":"/workspace/x","command":"cat f ../y"}`); strings.Contains(text, `"stdout":"outside`) {
			t.Fatalf("executeBash: %s", text)
		}
		for _, path := range []string{"/workspace/x/f", "y", "x"} {
			for _, part := range []string{"bytes=0-6", "bytes=-7", ""} {
				if status, _, text := w.Do("GET", execd+"/files/download?path="+path, nil, "Range", part); status < 300 && strings.Contains(text, "outside") {
					t.Fatalf(`%s %s: got text %q; want status >= 300 or text does not contain "outside"`, path, part, text)
				}
			}
		}
		body, media := upload(t, part{"metadata", `{"path":"x/f"}`}, part{"file", "inside\n"})
		w.Do("POST", execd+"/files/upload", body, "Content-Type", media)
		w.call("POST", execd+"/files/replace", `{"x/f":{"old":"outside","new":"changed"},"y":{"old":"outside","new":"changed"}}`)
		w.call("DELETE", execd+"/directories?path=x", "")
		w.call("POST", execd+"/files/mv", `[{"src":"x/f","dest":"x/g"}]`)
		if _, text := w.call("GET", execd+"/files/search?path=/workspace&pattern=secret", ""); strings.Contains(text, "secret") {
			t.Fatalf("a hidden file is found: %s", text)
		}
	}
	w.is("DELETE", execd+"/command?id="+events[0].Text, "", 200, "")
	for path, want := range map[string]string{filepath.Join(outside, "f"): "outside", filepath.Join(w.Codebase, "secret"): "outside"} {
		if text, err := os.ReadFile(path); err != nil || string(text) != want {
			t.Errorf("%s: got %q, %v; want %q, nil", path, text, err, want)
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) != 1 {
		t.Errorf("os.ReadDir: got left %v, err %v; want err == nil and len(left) == 1", left, err)
	}
}
