package envd_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"wolffia/internal/test/wait"
)

func TestFilesystem(t *testing.T) {
	w := newWorld(t)
	w.rpc(f+"MakeDir", m{"path": "d/s1/s2"}, 200)
	w.fails(f+"MakeDir", m{"path": "d/s1"}, 409, "already_exists")
	w.is("POST", "/files?path=d/file.txt", "Hello", 200, "", "Content-Type", octets)
	w.fails(f+"MakeDir", m{"path": "d/file.txt"}, 400, "invalid_argument")
	w.fails(f+"MakeDir", m{"path": "d/file.txt/x"}, 400, "invalid_argument")
	w.run("ln -s file.txt d/link; ln -s none d/broken; ln -s s1 d/tos1")
	entry := w.rpc(f+"Stat", m{"path": "d/file.txt"}, 200)["entry"].(map[string]any)
	modified, _ := entry["modifiedTime"].(string)
	delete(entry, "modifiedTime")
	if got := fmt.Sprint(entry); len(modified) != 30 || got != "map[group:user mode:420 name:file.txt owner:user path:/home/user/d/file.txt permissions:-rw-r--r-- size:5 type:FILE_TYPE_FILE]" {
		t.Errorf("%s %s", got, modified)
	}
	entry = w.rpc(f+"Stat", m{"path": "d/link"}, 200)["entry"].(map[string]any)
	if entry["type"] != "FILE_TYPE_FILE" || entry["symlinkTarget"] != "/home/user/d/file.txt" || entry["permissions"] != "Lrwxrwxrwx" || entry["mode"] != 420.0 {
		t.Errorf("%v", entry)
	}
	entry = w.rpc(f+"Stat", m{"path": "d/broken"}, 200)["entry"].(map[string]any)
	if entry["type"] != nil || entry["symlinkTarget"] != "/home/user/d/broken" {
		t.Errorf("%v", entry)
	}
	list := func(path string, depth any) (names []string) {
		t.Helper()
		for _, e := range w.rpc(f+"ListDir", m{"path": path, "depth": depth}, 200)["entries"].([]any) {
			names = append(names, strings.TrimPrefix(e.(map[string]any)["path"].(string), "/home/user/"))
		}
		return names
	}
	if got := list("d", nil); !slices.Equal(got, []string{"d/broken", "d/file.txt", "d/link", "d/s1", "d/tos1"}) {
		t.Errorf("%v", got)
	}
	if got := list("~/d", "2"); !slices.Equal(got, []string{"d/broken", "d/file.txt", "d/link", "d/s1", "d/s1/s2", "d/tos1"}) {
		t.Errorf("%v", got)
	}
	if got := list("d/tos1", 1); !slices.Equal(got, []string{"d/tos1/s2"}) {
		t.Errorf("%v", got)
	}
	for _, method := range []string{"Stat", "ListDir", "WatchDir"} {
		if method == "WatchDir" {
			if r := w.stream(f+method, m{"path": "none"}).rest(); r.closing != "not_found" {
				t.Errorf("%+v", r)
			}
			continue
		}
		w.fails(f+method, m{"path": "none"}, 404, "not_found")
		w.fails(f+method, m{"path": "~x"}, 400, "invalid_argument")
		w.fails(f+method, m{"path": "d"}, 401, "unauthenticated", "Authorization", "Basic cm9vdDo=")
	}
	w.fails(f+"ListDir", m{"path": "d/file.txt"}, 400, "invalid_argument")
	w.is("POST", "/files?path=d/other", "other", 200, "", "Content-Type", octets)
	entry = w.rpc(f+"Move", m{"source": "d/file.txt", "destination": "d/other"}, 200)["entry"].(map[string]any)
	if entry["path"] != "/home/user/d/other" || entry["size"] != "5" {
		t.Errorf("%v", entry)
	}
	w.is("GET", "/files?path=d/other", "", 200, "Hello")
	w.rpc(f+"Move", m{"source": "d", "destination": "/home/user/new/d"}, 200)
	w.fails(f+"Move", m{"source": "d", "destination": "x"}, 404, "not_found")
	w.rpc(f+"Remove", m{"path": "new"}, 200)
	w.rpc(f+"Remove", m{"path": "new"}, 200)
	w.fails(f+"Stat", m{"path": "new"}, 404, "not_found")
	if got := w.rpc(f+"Stat", m{"path": ""}, 200)["entry"].(map[string]any); got["path"] != "/home/user" {
		t.Errorf("%v", got)
	}
}

// seen waits for an event, and returns its entry.
func (s *stream) seen(kind, name string) m {
	s.w.Helper()
	for {
		f, last, err := s.next()
		if err != nil || last {
			s.w.Fatalf("%s of %s: %+v, %v", kind, name, f, err)
		}
		if e := f.Filesystem; e != nil && e.Type == "EVENT_TYPE_"+kind && e.Name == name {
			return e.Entry
		}
	}
}

func TestWatch(t *testing.T) {
	w := newWorld(t)
	w.rpc(f+"MakeDir", m{"path": "d/sub"}, 200)
	s := w.stream(f+"WatchDir", m{"path": "d", "recursive": true, "includeEntry": true})
	if first, _, err := s.next(); err != nil || first.Start == nil {
		t.Fatalf("%+v, %v", first, err)
	}
	plain := w.stream(f+"WatchDir", m{"path": "d"}, "Keepalive-Ping-Interval", "1")
	if _, _, err := plain.next(); err != nil {
		t.Fatal(err)
	}
	w.is("POST", "/files?path=d/sub/f", "x", 200, "", "Content-Type", octets)
	s.seen("CREATE", "sub/f")
	s.seen("CHMOD", "sub/f")
	if e := s.seen("WRITE", "sub/f"); e["path"] != "/home/user/d/sub/f" || e["size"] != "1" {
		t.Errorf("%v", e)
	}
	w.run("cd d; chmod 600 sub/f; mkdir -p new/er; echo >new/er/g; mv sub/f sub/h; rm sub/h")
	s.seen("CHMOD", "sub/f")
	s.seen("CREATE", "new/er/g") // what was written before it was watched is not seen
	if e := s.seen("RENAME", "sub/f"); e != nil {
		t.Errorf("%v", e)
	}
	s.seen("REMOVE", "sub/h")
	plain.seen("CREATE", "new") // and nothing of sub
	if life, _, err := plain.next(); err != nil || life.Keepalive == nil {
		t.Errorf("%+v, %v", life, err)
	}
	host := w.stream(f+"WatchDir", m{"path": "/workspace"}) // the codebase, which is a file system in user space
	if _, _, err := host.next(); err != nil {
		t.Fatal(err)
	}
	w.run("echo >/workspace/inside")
	host.seen("WRITE", "inside")
}

func TestWatchers(t *testing.T) {
	w := newWorld(t)
	w.rpc(f+"MakeDir", m{"path": "d"}, 200)
	w.fails(f+"CreateWatcher", m{"path": "none"}, 404, "not_found")
	w.is("POST", "/files?path=f", "x", 200, "", "Content-Type", octets)
	w.fails(f+"CreateWatcher", m{"path": "f"}, 400, "invalid_argument")
	id := w.rpc(f+"CreateWatcher", m{"path": "d"}, 200)["watcherId"]
	of := m{"watcherId": id}
	if got := w.rpc(f+"GetWatcherEvents", of, 200)["events"]; got != nil {
		t.Errorf("%v", got)
	}
	w.run("echo >d/x")
	seen := ""
	wait.Until(t, "an event", func() bool {
		seen += fmt.Sprint(w.rpc(f+"GetWatcherEvents", of, 200)["events"])
		return strings.Contains(seen, "map[name:x type:EVENT_TYPE_CREATE]") && strings.Contains(seen, "EVENT_TYPE_WRITE")
	})
	w.rpc(f+"RemoveWatcher", of, 200)
	wait.Until(t, "the end of the watch", func() bool {
		status, _ := w.do("POST", "/"+f+"RemoveWatcher", fmt.Sprintf(`{"watcherId":%q}`, id), "Content-Type", "application/json")
		return status == 404
	})
	w.fails(f+"GetWatcherEvents", of, 404, "not_found")
	for range 32 {
		w.rpc(f+"CreateWatcher", m{"path": "d"}, 200)
	}
	w.fails(f+"CreateWatcher", m{"path": "d"}, 429, "resource_exhausted")
}

// Events that no client asks for are bounded, as a sandbox chooses how much each of them says.
func TestLongEvents(t *testing.T) {
	w := newWorld(t)
	deep := "d" + strings.Repeat("/"+strings.Repeat("x", 250), 14)
	w.rpc(f+"MakeDir", m{"path": deep}, 200)
	of := w.rpc(f+"CreateWatcher", m{"path": "d", "recursive": true, "includeEntry": true}, 200)
	// the events are three times the bound, and fewer than the kernel keeps; equal ones that follow each other become one
	if r := w.run("cd " + deep + " && for n in $(seq 2000); do echo x >> f; echo x >> g; done"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	wait.Until(t, "the end of watchers", func() bool { return w.handler.Watchers(w.box.ID) == 0 })
	w.rpc(f+"GetWatcherEvents", m{"watcherId": of["watcherId"]}, 404)
}
