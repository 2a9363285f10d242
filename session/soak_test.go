package session_test

import (
	"context"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
	"wolffia/wire"
	"wolffia/wire/client"
)

// counts are what may not grow: descriptors, goroutines, bytes of heap.
func counts(t testing.TB) (fds, goroutines int, heap uint64) {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return len(names), runtime.NumGoroutine(), m.HeapAlloc
}

// countsDownTo waits for the counts to be that low: goroutines end just after
// they have answered. It gives up in the end.
func countsDownTo(t testing.TB, fds, routines int) (f, g int, heap uint64) {
	for range 100_000 {
		if f, g, heap = counts(t); f <= fds && g <= routines {
			break
		}
		runtime.Gosched()
	}
	return f, g, heap
}

// A builtin costs one message from the guest, its result, and few allocations,
// of host and guest together.
func TestBuiltinCost(t *testing.T) {
	s := open(t, "bash")
	command := func() {
		if r := s.run(t, ":"); r.err != nil || r.Code != 0 {
			t.Fatalf(`run ":": got r %v; want r.err == nil and r.Code == 0`, r)
		}
	}
	for range 50 {
		command()
	}
	const rounds = 200
	before := written.Load()
	allocs := testing.AllocsPerRun(rounds, command) // one more to warm up
	if n := written.Load() - before; n > rounds+1 {
		t.Errorf("%d messages for %d commands", n, rounds+1)
	}
	if allocs > mostAllocs {
		t.Errorf("%.0f allocations for a command, want at most %d", allocs, mostAllocs)
	}
	t.Logf("%.0f allocations", allocs)
}

const mostAllocs = 100

// awaitClean waits until the sessions have renewed their pipes, which they do when they
// have answered: a list waits for that.
func (s *sess) awaitClean(t *testing.T) {
	t.Helper()
	if _, err := s.conn.Sessions(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Many commands in one session leave nothing behind.
func TestManyCommands(t *testing.T) {
	n := testenv.Some(10_000)
	s := open(t, "bash")
	kinds := []string{":", "x=$((x+1))", "echo out; echo err >&2", "echo ${nope:?}", "false", "if", "cd /usr; cd /"}
	round := func(n int) {
		for i := range n {
			if r := s.run(t, kinds[i%len(kinds)]); r.err != nil || r.SessionEnded || r.StatusLost {
				t.Fatalf("%d: got r %v; want r.err == nil and not r.SessionEnded and not r.StatusLost", i, r)
			}
		}
	}
	round(200)
	s.awaitClean(t)
	fds, routines, heap := counts(t)
	round(n)
	s.awaitClean(t)
	fds2, routines2, heap2 := countsDownTo(t, fds, routines)
	if fds2 > fds || routines2 > routines || heap2 > heap+2<<20 {
		t.Errorf("%d -> %d descriptors, %d -> %d goroutines, %d -> %d bytes", fds, fds2, routines, routines2, heap, heap2)
	}
	if fds := s.exec(t, "echo /proc/$$/fd/*"); len(strings.Fields(fds)) > 12 {
		t.Errorf("the shell has %s", fds)
	}
	s.alive(t)
}

// Sessions give all back: descriptors, goroutines, processes, directories.
func TestManySessions(t *testing.T) {
	conn := connect(t)
	n := testenv.Some(200)
	one := open(t, "bash")
	one.alive(t)
	one.awaitClean(t)
	fds, routines, _ := counts(t)
	before, _ := os.ReadDir(sessionsDir)
	ctx, cancel := context.WithTimeout(t.Context(), 10*wait.Limit) // for all of them
	defer cancel()
	all := make([]*sess, n)
	var wg sync.WaitGroup
	for i := range all {
		all[i] = &sess{conn, "many" + strings.Repeat("x", i%40) + string(rune('a'+i%26)) + string(rune('a'+i/26))}
		wg.Go(func() {
			_, err := conn.CreateSession(ctx, &wire.StartRequest{Env: environ(), Session: &wire.SessionRequest{Op: wire.SessionCreate, Name: all[i].name}})
			if err != nil {
				t.Error(err)
				return
			}
			all[i].alive(t)
		})
	}
	wg.Wait()
	if list, err := conn.Sessions(ctx); err != nil || len(list) < n {
		t.Errorf("%d sessions, %v", len(list), err)
	}
	for _, s := range all {
		wg.Go(func() {
			if err := conn.DestroySession(ctx, s.name); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if f, g, _ := countsDownTo(t, fds, routines); f > fds || g > routines {
		t.Errorf("%d -> %d descriptors, %d -> %d goroutines", fds, f, routines, g)
	}
	if after, _ := os.ReadDir(sessionsDir); len(after) > len(before) {
		t.Errorf("%d -> %d directories", len(before), len(after))
	}
}

// patience is how long a fuzzed command may take. What has no end, as a
// recursion, takes the ladder's time besides; a worker has 10 s in all.
const patience = time.Second

// listing are builtins that print what differs between any two shells, or act
// on the shell itself.
var listing = regexp.MustCompile(`set|declare|typeset|export|readonly|local|shopt|times|history|fc|dirs|jobs|kill|suspend|logout|help|enable|bind|comp|hash|umask|ulimit|caller|exec`)

// FuzzCommands: whatever the text, the session stays exact, and what the text
// prints and how it ends is what a fresh interactive bash makes of it. There
// are no programs to find, and no path to write to.
func FuzzCommands(f *testing.F) {
	for _, text := range []string{
		"echo a", "exit 3", "return 4", "echo 'open", "cat <<E", "for i in 1 2; do echo $i; done", "x=1; echo $x", "set -e; false", "f() { echo f; }; f",
		"${x:?}", "break", "echo \xff\xfe", "a=(1 2); echo ${a[1]}", "echo $((1+1)) `echo b`", "printf '\\000x'", "if", "}", "( exit 5 )", "alias a=b; a", "\r\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if strings.ContainsAny(string(text), "/~\x00&$|`>") || strings.Contains(string(text), "wait") || strings.Contains(string(text), "trap") || len(text) > 500 {
			return // jobs, traps of an exit that only one of them makes, and what depends on the process or the clock; NUL is refused
		}
		dir := t.TempDir()
		if err := os.WriteFile(dir+"/text", text, 0o600); err != nil {
			t.Fatal(err)
		}
		env := []string{"PATH=/nonexistent", "LANG=C.UTF-8", "IGNOREEOF="}
		s := create(t, &wire.StartRequest{Dir: dir, Env: env, Session: &wire.SessionRequest{Shell: "/bin/bash"}})
		got := s.run(t, string(text), timeout(patience))
		s.run(t, "{ \\builtin set +exv; } 2>/dev/null") // what a text may have asked for is no fault
		s.alive(t)
		if listing.Match(text) {
			return
		}
		var out strings.Builder
		p, err := s.conn.Start(&client.Request{
			StartRequest: wire.StartRequest{
				Args: []string{"/bin/bash", "--norc", "--noprofile", "-ic", "shopt -s execfail; . ./text"},
				Dir:  dir, Env: env, TimeoutMS: uint64(patience.Milliseconds()),
			},
			OnStdout: func(b []byte) { out.Write(b) }, OnStderr: func([]byte) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		want, err := p.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want.TimedOut || got.TimedOut {
			return
		}
		if got.stdout != out.String() || got.Code != want.Code {
			t.Errorf("%q: %v\nwant code %d, stdout %q", text, got, want.Code, out.String())
		}
	})
}
