package fileclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"wolffia/internal/filecall"
	"wolffia/runtime"
)

// A fake starts functions in place of processes.
type fake struct {
	main    func(in io.Reader, out, said io.Writer)
	started atomic.Int32
	mu      sync.Mutex
	last    *fakeProcess // guarded by mu
}

type fakeProcess struct {
	runtime.Process
	in          *io.PipeWriter
	out, said   *io.PipeReader
	theirs      *io.PipeReader
	done        chan struct{}
	outW, saidW *io.PipeWriter
}

func (f *fake) StartProcess(context.Context, string, *runtime.Command) (runtime.Process, error) {
	f.started.Add(1)
	p := &fakeProcess{done: make(chan struct{})}
	p.theirs, p.in = io.Pipe()
	p.out, p.outW = io.Pipe()
	p.said, p.saidW = io.Pipe()
	go func() { // ends with its input
		f.main(p.theirs, p.outW, p.saidW)
		p.end()
		close(p.done)
	}()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = p
	return p, nil
}

func (p *fakeProcess) end() {
	_, _, _ = p.theirs.Close(), p.outW.Close(), p.saidW.Close()
}

func (p *fakeProcess) Stdin() io.WriteCloser { return p.in }
func (p *fakeProcess) Stdout() io.Reader     { return p.out }
func (p *fakeProcess) Stderr() io.Reader     { return p.said }
func (p *fakeProcess) Wait(context.Context) (runtime.Result, error) {
	<-p.done
	return runtime.Result{}, nil
}

func (p *fakeProcess) Close() error {
	p.end()
	return p.in.Close()
}

func honest(in io.Reader, out, _ io.Writer) { _ = filecall.Serve(out, in) }

func (f *fake) starts(t *testing.T, want int32, after string) {
	t.Helper()
	if got := f.started.Load(); got != want {
		t.Errorf("%d processes after %s, want %d", got, after, want)
	}
}

// One process does one operation after the other, also after one that fails.
func TestOneProcess(t *testing.T) {
	f := &fake{main: honest}
	c, at, dir := New(f), Place{Sandbox: "s"}, t.TempDir()
	path := filepath.Join(dir, "file")
	for range 10 {
		q := &filecall.Request{Op: filecall.OpPut, Path: path}
		if _, err := c.Do(t.Context(), at, q, strings.NewReader("content"), 1<<20); err != nil {
			t.Fatal(err)
		}
		q.Path = dir // a directory, which is known before the content has come
		_, err := c.Do(t.Context(), at, q, bytes.NewReader(make([]byte, 2<<20)), 1<<20)
		if e, ok := errors.AsType[*filecall.Error](err); !ok || e.Kind != filecall.KindNotRegular {
			t.Fatal(err)
		}
		part, err := c.Get(t.Context(), at, &filecall.Request{Op: filecall.OpGet, Path: path, Most: -1})
		if err != nil {
			t.Fatal(err)
		}
		if content, err := io.ReadAll(part); string(content) != "content" || err != nil {
			t.Errorf(`io.ReadAll: got %q, %v; want "content", nil`, content, err)
		}
		if err := part.Close(); err != nil {
			t.Error(err)
		}
	}
	f.starts(t, 1, "operations that end")
	if reply, err := c.Do(t.Context(), Place{Sandbox: "other"}, &filecall.Request{Op: filecall.OpHost}, nil, 1<<20); err != nil || reply.Host == nil {
		t.Error(err)
	}
	f.starts(t, 2, "one in another sandbox")
}

// A process that has ended while it was idle is replaced, and so is one whose content was not read to its end.
func TestReplaced(t *testing.T) {
	f := &fake{main: honest}
	c, at, path := New(f), Place{Sandbox: "s"}, filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	host := func() {
		t.Helper()
		if _, err := c.Do(t.Context(), at, &filecall.Request{Op: filecall.OpHost}, nil, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	host()
	f.last.end() // as a kill
	c.mu.Lock()
	h := c.idle[at][0]
	c.mu.Unlock()
	<-h.ended
	host()
	f.starts(t, 2, "a kill")
	part, err := c.Get(t.Context(), at, &filecall.Request{Op: filecall.OpGet, Path: path, Most: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := part.Close(); err != nil {
		t.Error(err)
	}
	host()
	f.starts(t, 3, "a content that was not read")
}

// If a content cannot be read, the file stays, and the error is the reader's.
func TestBadContent(t *testing.T) {
	f := &fake{main: honest}
	c, path := New(f), filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	content := io.MultiReader(strings.NewReader("new"), io.NopCloser(readerOf(func([]byte) (int, error) { return 0, broken })))
	_, err := c.Do(t.Context(), Place{Sandbox: "s"}, &filecall.Request{Op: filecall.OpPut, Path: path}, content, 1<<20)
	if !errors.Is(err, broken) {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); string(text) != "old" || err != nil {
		t.Errorf(`os.ReadFile: got %q, %v; want "old", nil`, text, err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); len(left) != 1 || err != nil {
		t.Errorf("os.ReadDir: got left %v, err %v; want len(left) == 1 and err == nil", left, err)
	}
}

// waits reports whether a helper waits for an operation.
func (c *Client) waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.idle) > 0
}

type readerOf func([]byte) (int, error)

func (f readerOf) Read(b []byte) (int, error) { return f(b) }

// What a sandbox says is not trusted, and makes no caller wait.
func TestHostile(t *testing.T) {
	for name, tt := range map[string]struct {
		main func(in io.Reader, out, said io.Writer)
		want string
	}{
		"an earlier version": {func(_ io.Reader, _, said io.Writer) {
			_, _ = io.WriteString(said, `wolffia-guest: arguments ["serve-files"]: wolffia starts this program, as PID 1 of a sandbox`)
		}, "older wolffia"},
		"the end":      {func(io.Reader, io.Writer, io.Writer) {}, "has ended"},
		"a long reply": {func(in io.Reader, out, _ io.Writer) { _, _ = out.Write([]byte{0xff, 0xff, 0xff, 0xff}) }, "more than was asked for"},
		"no JSON":      {func(in io.Reader, out, _ io.Writer) { _ = filecall.NewSender(out).Frame([]byte("{")) }, "damaged"},
		"a cut reply":  {func(in io.Reader, out, _ io.Writer) { _, _ = out.Write([]byte{0, 0, 0, 9, '{'}) }, "has ended"},
		"no head": {func(in io.Reader, out, _ io.Writer) {
			_ = filecall.NewSender(out).JSON(&filecall.Reply{})
			_, _ = io.Copy(io.Discard, in)
		}, "damaged"},
		"a head of more than was asked for": {func(in io.Reader, out, _ io.Writer) {
			_ = filecall.NewSender(out).JSON(&filecall.Reply{Head: &filecall.Head{Size: 9, Bytes: 9}})
			_, _ = io.Copy(io.Discard, in)
		}, "damaged"},
		"more than the head says": {func(in io.Reader, out, _ io.Writer) {
			s := filecall.NewSender(out)
			_ = s.JSON(&filecall.Reply{Head: &filecall.Head{Size: 9, Bytes: 3}})
			_, _ = io.WriteString(s, "four")
			_, _ = io.Copy(io.Discard, in)
		}, "unexpected EOF"},
		"less than the head says": {func(in io.Reader, out, _ io.Writer) {
			s := filecall.NewSender(out)
			_ = s.JSON(&filecall.Reply{Head: &filecall.Head{Size: 9, Bytes: 5}})
			_, _ = io.WriteString(s, "four")
			_ = s.End()
		}, "unexpected EOF"},
	} {
		c := New(&fake{main: func(in io.Reader, out, said io.Writer) {
			var q filecall.Request
			if err := filecall.NewReceiver(in).JSON(&q, 1<<20); err == nil {
				tt.main(in, out, said)
			}
		}})
		part, err := c.Get(t.Context(), Place{Sandbox: "s"}, &filecall.Request{Op: filecall.OpGet, Path: "/x", Most: 5})
		if err == nil {
			var content []byte
			content, err = io.ReadAll(part)
			if len(content) > 5 {
				t.Errorf("%s: got content %q; want len(content) <= 5", name, content)
			}
			_ = part.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if c.waits() && name != "less than the head says" { // as of a file that shrinks
			t.Errorf("%s: it is asked again", name)
		}
	}
}

// An operation ends with its context, and is not asked for again.
func TestCanceled(t *testing.T) {
	asked := make(chan struct{})
	c := New(&fake{main: func(in io.Reader, _, _ io.Writer) {
		var q filecall.Request
		_ = filecall.NewReceiver(in).JSON(&q, 1<<20)
		close(asked)
		_, _ = io.Copy(io.Discard, in) // and no reply
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if _, err := c.Do(ctx, Place{Sandbox: "s"}, &filecall.Request{Op: filecall.OpHost}, nil, 1<<20); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if c.waits() {
		t.Error("it is asked again")
	}
}
