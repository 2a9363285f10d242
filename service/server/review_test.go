package server_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wolffia/internal/test/servetest"
	"wolffia/internal/test/suite"
	"wolffia/internal/test/testbin"
	"wolffia/local"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
	"wolffia/service"
)

// A reviewed is what calls on changes answer.
type reviewed struct {
	SandboxID string
	Sandboxes []struct {
		SandboxID string
		State     runtime.State
	}
	Changes            []reviewedChange
	More               int
	Encoding, Content  string
	Truncated          bool
	Applied, Left      []reviewedChange
	Discarded          int
	Snapshots          []struct{ Name string }
	Result             *reviewed
	Error              *struct{ Code, Message string }
	Stdout, Stderr     string
	Created, Destroyed bool
}

type reviewedChange struct {
	Path, Kind, Type, Conflict, Denied string
	Path64                             []byte
	Added                              int
}

func paths(all []reviewedChange) string {
	var b strings.Builder
	for _, c := range all {
		b.WriteString(c.Kind[:1] + ":" + c.Path + " ")
	}
	return b.String()
}

// A copied is a service with a sandbox of zoe with a copied codebase.
type copied struct {
	*servetest.World
	id string
}

// call makes a call of zoe's.
func (c *copied) call(name string, more m) (int, *reviewed, string) {
	c.Helper()
	more = by(zoe, more)
	if more["sandboxId"] == nil && !slices.Contains([]string{"createSandbox", "ensureSandbox", "listSandboxes"}, name) {
		more["sandboxId"] = c.id
	}
	text, err := json.Marshal(more)
	c.OK(err)
	status, _, body := c.Do(http.MethodPost, "/api/v1/"+name, strings.NewReader(string(text)), "Content-Type", "application/json")
	r := &reviewed{}
	c.OK(json.Unmarshal([]byte(body), r))
	return status, r, body
}

func (c *copied) ok(name string, more m) *reviewed {
	c.Helper()
	status, r, body := c.call(name, more)
	if status >= 300 {
		c.Fatalf("%s %v: got status %d, body %s; want status < 300", name, more, status, body)
	}
	return r
}

// fails makes a call that must fail.
func (c *copied) fails(name string, more m, status int, part string) *reviewed {
	c.Helper()
	got, r, body := c.call(name, more)
	if got != status || !strings.Contains(body, part) {
		c.Errorf("%s %v: %d %s, want %d %s", name, more, got, body, status, part)
	}
	return r
}

func (c *copied) bash(command string) {
	c.Helper()
	c.ok("executeBash", m{"command": command})
}

func (c *copied) write(name, text string) {
	c.Helper()
	c.OK(os.WriteFile(filepath.Join(c.Codebase, name), []byte(text), 0o666))
	c.OK(os.Chmod(filepath.Join(c.Codebase, name), 0o666))
}

// host checks what a file on the host has; - for none.
func (c *copied) host(name, want string) {
	c.Helper()
	text, err := os.ReadFile(filepath.Join(c.Codebase, name))
	if os.IsNotExist(err) {
		text = []byte("-")
	}
	if string(text) != want {
		c.Errorf("%s on the host is %q, want %q", name, text, want)
	}
}

func newCopied(t *testing.T, opts ...func(*service.Options)) *copied {
	t.Helper()
	c := &copied{World: servetest.New(t, "", opts...)}
	for _, name := range []string{"a", "b", "secret"} {
		c.write(name, name+"\n")
	}
	c.id = c.ok("createSandbox", m{"cow": true}).SandboxID
	return c
}

func allowApply(o *service.Options) { o.AllowApply = true }

// What a sandbox with cow changes is listed, shown, applied by parts and taken back.
func TestReview(t *testing.T) {
	c := newCopied(t, allowApply)
	if all := c.ok("changes", nil); all.Changes == nil || len(all.Changes) != 0 {
		t.Errorf("a new sandbox has changes: %+v", all)
	}
	c.bash(`cd /workspace; echo more >> a; rm b; echo new > c; printf 'x\n' > "$(printf 'odd\377')"; printf '\377\n' > d`)
	c.host("a", "a\n")
	if got := paths(c.ok("changes", nil).Changes); got != "m:a d:b a:c a:d a:odd\ufffd " {
		t.Errorf("changes are %s", got)
	}
	odd := base64.StdEncoding.EncodeToString([]byte("odd\xff"))
	if all := c.ok("changes", m{"paths64": []string{odd}, "lines": true}).Changes; len(all) != 1 || string(all[0].Path64) != "odd\xff" || all[0].Added != 1 {
		t.Errorf("a name that is not UTF-8: %+v", all)
	}
	if all := c.ok("changes", m{"limit": 2}); paths(all.Changes) != "m:a d:b " || all.More != 3 {
		t.Errorf("two of the changes: %+v", all)
	}
	d := c.ok("diff", m{"paths": []string{"a"}})
	if d.Encoding != "utf-8" || d.Truncated || !strings.Contains(d.Content, "--- a/a\n+++ b/a\n@@ -1 +1,2 @@\n a\n+more\n") {
		t.Errorf("diff: %+v", d)
	}
	if d := c.ok("diff", m{"maxBytes": 10}); len(d.Content) != 10 || !d.Truncated {
		t.Errorf("ten bytes of diff: %+v", d)
	}
	c.fails("diff", m{"maxBytes": service.MaxDiff + 1}, 400, "bytes of diff")
	c.fails("changes", m{"limit": -1}, 400, "limit -1")
	c.fails("changes", m{"paths": []string{"../x"}}, 400, "path")
	c.fails("changes", m{"paths": []string{"/etc"}}, 400, "path")
	c.fails("changes", m{"paths": []string{"none"}}, 404, "has no change")

	if r := c.ok("applyChanges", m{"dryRun": true, "paths": []string{"a"}}); paths(r.Applied) != "m:a " {
		t.Errorf("dry run: %+v", r)
	}
	c.host("a", "a\n")
	c.write("b", "the host's\n")
	if r := c.fails("applyChanges", nil, 409, `"conflict"`); r.Result == nil || !strings.Contains(paths(r.Result.Left), "d:b") || len(r.Result.Applied) != 0 {
		t.Errorf("a conflict says: %+v", r)
	}
	c.host("a", "a\n")
	c.ok("applyChanges", m{"paths": []string{"a", "c"}})
	c.host("a", "a\nmore\n")
	c.host("c", "new\n")
	if r := c.ok("discardChanges", m{"paths": []string{"d"}}); r.Discarded != 1 {
		t.Errorf("discard: %+v", r)
	}
	c.ok("applyChanges", m{"paths": []string{"b"}, "force": true})
	c.host("b", "-")
	if got := paths(c.ok("changes", nil).Changes); got != "a:odd\ufffd " {
		t.Errorf("left are %s", got)
	}
	// The rules hide it: a file of the sandbox's in its place cannot be made at all.
	if r := c.ok("executeBash", m{"command": "echo mine > /workspace/secret"}); r.Stderr == "" {
		t.Error("a hidden name could be written")
	}
	c.ok("destroySandbox", nil)
	c.host("odd\xff", "-")
}

// Calls on the changes of one sandbox wait for each other.
func TestReviewsAtOnce(t *testing.T) {
	c := newCopied(t)
	c.bash("for i in $(seq 300); do echo $i > /workspace/n$i; done")
	for _, err := range suite.AtOnce(12, func(i int) error {
		name := []string{"changes", "diff"}[i%2]
		if status, _, body := c.call(name, nil); status != http.StatusOK {
			return fmt.Errorf("%s: %d %s", name, status, body)
		}
		return nil
	}) {
		if err != nil {
			t.Error(err)
		}
	}
}

// Without its flag a service changes nothing on the host, and only the owner sees what is changed.
func TestReviewRefused(t *testing.T) {
	c := newCopied(t)
	c.bash("echo more >> /workspace/a")
	c.fails("applyChanges", nil, 403, "--allow-apply")
	c.fails("applyChanges", m{"force": true}, 403, "--allow-apply")
	if r := c.ok("applyChanges", m{"dryRun": true}); paths(r.Applied) != "m:a " {
		t.Errorf("dry run: %+v", r)
	}
	c.host("a", "a\n")
	for _, name := range []string{"changes", "diff", "applyChanges", "discardChanges", "forkSandbox", "listSnapshots", "createSnapshot", "restoreSnapshot", "removeSnapshot"} {
		more := by(yan, m{"sandboxId": c.id})
		if strings.HasSuffix(name, "Snapshot") {
			more["snapshot"] = "s"
		}
		text, err := json.Marshal(more)
		c.OK(err)
		if status, _, body := c.Do(http.MethodPost, "/api/v1/"+name, strings.NewReader(string(text)), "Content-Type", "application/json"); status != 404 || strings.Contains(strings.ReplaceAll(body, c.id, ""), "zo") {
			t.Errorf("%s of another owner: %d %s", name, status, body)
		}
	}
	c.ok("destroySandbox", nil)
	direct := c.ok("createSandbox", nil).SandboxID
	for _, name := range []string{"changes", "diff", "applyChanges", "discardChanges", "forkSandbox", "listSnapshots"} {
		c.fails(name, m{"sandboxId": direct, "dryRun": true}, 400, "")
	}
	c.fails("changes", m{"sandboxId": direct}, 400, "works on the host's directory itself")
	c.fails("ensureSandbox", m{"cow": true}, 409, "its cow is false, and the request asks for true")
}

// A fork goes its own way, is the owner's, and all calls take it.
func TestFork(t *testing.T) {
	c := newCopied(t)
	c.bash("echo one > /workspace/a")
	fork := c.ok("forkSandbox", nil).SandboxID
	if fork == c.id || fork == "" {
		t.Fatalf("the fork is %q", fork)
	}
	c.bash("echo two > /workspace/a")
	if r := c.ok("executeBash", m{"sandboxId": fork, "command": "cat /workspace/a; echo three > /workspace/b"}); r.Stdout != "one\n" {
		t.Errorf("the fork has %q", r.Stdout)
	}
	if got := paths(c.ok("changes", nil).Changes); got != "m:a " {
		t.Errorf("the fork's changes are the other's, too: %s", got)
	}
	if r := c.ok("ensureSandbox", m{"cow": true}); r.SandboxID != c.id || r.Created {
		t.Errorf("with a fork, the owner has %+v", r)
	}
	c.OK(c.Service.Stop(c.Ctx, service.Caller{Owner: zoe}, fork))
	if got := paths(c.ok("changes", m{"sandboxId": fork}).Changes); got != "m:a m:b " {
		t.Errorf("a fork that is stopped has the changes %s", got)
	}
	c.ok("destroySandbox", m{"sandboxId": fork})
	c.fails("changes", m{"sandboxId": fork}, 404, "")
}

// Snapshots keep the changes of a moment. A sandbox that runs is started again when one is restored.
func TestSnapshots(t *testing.T) {
	c := newCopied(t)
	c.bash("echo one > /workspace/a")
	c.ok("createSnapshot", m{"snapshot": "first"})
	c.fails("createSnapshot", m{"snapshot": "first"}, 409, "exists")
	c.fails("createSnapshot", m{"snapshot": "../x"}, 400, "snapshot")
	c.fails("restoreSnapshot", m{"snapshot": "none"}, 404, "no snapshot")
	c.bash("echo two > /workspace/a; echo > /workspace/new")
	if all := c.ok("listSnapshots", nil).Snapshots; len(all) != 1 || all[0].Name != "first" {
		t.Errorf("snapshots: %+v", all)
	}
	c.ok("restoreSnapshot", m{"snapshot": "first"})
	if r := c.ok("executeBash", m{"command": "cat /workspace/a; ls /workspace"}); r.Stdout != "one\na\nb\n" {
		t.Errorf("restored: %q", r.Stdout)
	}
	c.ok("removeSnapshot", m{"snapshot": "first"})
	c.fails("removeSnapshot", m{"snapshot": "first"}, 404, "no snapshot")
	for i := range service.MaxSnapshots {
		c.ok("createSnapshot", m{"snapshot": "s" + string(rune('A'+i%26)) + string(rune('a'+i/26))})
	}
	c.fails("createSnapshot", m{"snapshot": "last"}, 409, "remove one")
}

// A copied sandbox that has died is started anew: to replace it would lose its changes.
func TestEnsureKeepsChanges(t *testing.T) {
	c := newCopied(t)
	c.bash("echo one > /workspace/a")
	rt, err := local.New(&local.Options{StateDir: c.State, Binary: filepath.Join(testbin.Dir(c.TB), "wolffia")}, bwrap.Backend())
	c.OK(err)
	defer rt.Close()
	c.OK(rt.Stop(c.Ctx, c.id))
	r := c.ok("ensureSandbox", nil)
	if r.SandboxID != c.id || r.Created {
		t.Errorf("%s was replaced: %+v", c.id, r)
	}
	if got := paths(c.ok("changes", nil).Changes); got != "m:a " {
		t.Errorf("changes are %s", got)
	}
}
