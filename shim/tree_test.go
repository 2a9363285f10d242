package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/test/wait"
	"wolffia/perm"
	"wolffia/runtime"
)

// conns returns a connection and the tree server's end of it.
func conns(t *testing.T) (c *treeConn, tree *os.File, ended chan struct{}) {
	t.Helper()
	a, b, err := boot.ControlPair()
	if err != nil {
		t.Fatal(err)
	}
	c, ended = newTreeConn(a), make(chan struct{})
	go func() {
		defer close(ended)
		c.run()
	}()
	t.Cleanup(func() {
		_ = b.Close()
		<-ended
		_ = a.Close()
	})
	return c, b, ended
}

// next returns the next request.
func next(t *testing.T, tree *os.File) (req boot.TreeRequest, file *os.File) {
	t.Helper()
	packet, file, err := boot.ReceivePacket(tree, make([]byte, boot.MaxPacket))
	if err == nil {
		err = json.Unmarshal(packet, &req)
	}
	if err != nil {
		t.Fatal(err)
	}
	return req, file
}

// Answers find who has asked, in whatever order they come, and whatever else
// the tree server says.
func TestTreeAnswers(t *testing.T) {
	c, tree, _ := conns(t)
	type result struct {
		reply boot.TreeReply
		err   error
	}
	ask := func(op string) chan result {
		got := make(chan result, 1)
		go func() {
			r, err := c.ask(boot.TreeRequest{Op: op}, nil, wait.Limit)
			got <- result{r, err}
		}()
		return got
	}
	first := ask("one")
	one, _ := next(t, tree)
	second := ask("two")
	two, _ := next(t, tree)
	for _, packet := range []any{
		"nonsense",
		boot.TreeReply{ID: 99},
		boot.TreeReply{ID: two.ID, Stats: &boot.TreeStats{Nodes: 2}},
		boot.TreeReply{ID: two.ID},
		boot.TreeReply{ID: one.ID, Failure: boot.Failed(runtime.Errorf(runtime.ErrInvalid, "no"))},
	} {
		if err := boot.SendPacket(tree, packet, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-second; got.err != nil || got.reply.Stats == nil || got.reply.Stats.Nodes != 2 {
		t.Errorf("got %+v; want got.err == nil and got.reply.Stats != nil and got.reply.Stats.Nodes == 2", got)
	}
	if got := <-first; !errors.Is(got.err, runtime.ErrInvalid) || got.err.Error() != "no" {
		t.Errorf(`got %+v; want got.err is runtime.ErrInvalid and got.err.Error() == "no"`, got)
	}
}

// A tree server that does not answer, does not read, or is gone does not hang
// whoever asks.
func TestTreeDoesNotAnswer(t *testing.T) {
	c, tree, ended := conns(t)
	if _, err := c.ask(boot.TreeRequest{Op: boot.AskStats}, nil, time.Millisecond); !errors.Is(err, errNoAnswer) || !errors.Is(err, runtime.ErrUnavailable) {
		t.Errorf("ask: got err %v; want err is errNoAnswer and err is runtime.ErrUnavailable", err)
	}
	full := false
	for range 100_000 {
		_, err := c.ask(boot.TreeRequest{Op: boot.AskStats}, nil, 0)
		if full = errors.Is(err, unix.EAGAIN); full {
			break
		}
	}
	if !full {
		t.Error("the socket does not fill")
	}
	c.mu.Lock()
	waiting := len(c.waiting)
	c.mu.Unlock()
	if waiting > 0 {
		t.Errorf("%d are waited for", waiting)
	}
	for range 100_000 { // make room
		if _, _, _, _, err := unix.Recvmsg(int(tree.Fd()), make([]byte, 1024), nil, unix.MSG_DONTWAIT); err != nil {
			break
		}
	}
	got := make(chan error, 1)
	go func() {
		_, err := c.ask(boot.TreeRequest{Op: boot.AskStats}, nil, wait.Limit)
		got <- err
	}()
	next(t, tree)
	if err := tree.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; !errors.Is(err, errTreeGone) {
		t.Errorf("when it goes: %v", err)
	}
	<-ended
	if _, err := c.ask(boot.TreeRequest{Op: boot.AskStats}, nil, wait.Limit); !errors.Is(err, errTreeGone) {
		t.Errorf("when it is gone: %v", err)
	}
}

// Rules come through whole, and only from a file that cannot change.
func TestRulesInAFile(t *testing.T) {
	c, tree, _ := conns(t)
	want := []perm.Rule{{Pattern: strings.Repeat("x", 4000), Level: perm.Read, AtMost: true, Priority: 7, Source: "test"}}
	for len(want) < 1000 {
		want = append(want, want[0])
	}
	content, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	f, err := boot.SealedFile(content)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	asked := make(chan error, 1)
	go func() {
		_, err := c.ask(boot.TreeRequest{Op: boot.AskRules}, f, wait.Limit)
		asked <- err
	}()
	req, file := next(t, tree)
	if file == nil {
		t.Fatal("no file came")
	}
	defer file.Close()
	if err := boot.SendPacket(tree, boot.TreeReply{ID: req.ID}, nil); err != nil {
		t.Fatal(err)
	}
	if err := <-asked; err != nil {
		t.Error(err)
	}
	got, err := boot.ReadRules(file)
	if err != nil || len(got) != len(want) || got[999] != want[999] {
		t.Errorf("%d rules, %v", len(got), err)
	}
	if _, err := file.WriteAt([]byte("x"), 0); err == nil {
		t.Error("the file can be changed")
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for name, f := range map[string]*os.File{"none": nil, "pipe": r} {
		if _, err := boot.ReadRules(f); !errors.Is(err, runtime.ErrInvalid) {
			t.Errorf("%s: got %v, want runtime.ErrInvalid", name, err)
		}
	}
	for name, content := range map[string]string{"nothing": "", "no JSON": "x", "no rules": `{"a":1}`, "no level": `[{"pattern":"x","level":"all"}]`} {
		f, err := boot.SealedFile([]byte(content))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := boot.ReadRules(f); !errors.Is(err, runtime.ErrInvalid) {
			t.Errorf("%s: got %v, want runtime.ErrInvalid", name, err)
		}
		_ = f.Close()
	}
	long, err := boot.SealedFile(make([]byte, boot.MaxRules+1))
	if err != nil {
		t.Fatal(err)
	}
	defer long.Close()
	if _, err := boot.ReadRules(long); !errors.Is(err, runtime.ErrInvalid) || !strings.HasSuffix(err.Error(), "rules of more than 8388608 bytes") {
		t.Errorf("too long: %v", err)
	}
}

// TestOnWalk: each time that somebody goes through the tree is told, also the one before anyone asks for it.
func TestOnWalk(t *testing.T) {
	for _, early := range []bool{true, false} {
		c, tree, _ := conns(t)
		told := make(chan struct{}, 3)
		say := func() {
			if err := boot.SendPacket(tree, &boot.TreeReply{SequentialLookup: true}, nil); err != nil {
				t.Fatal(err)
			}
			// An answer comes after what was sent before it.
			asked, err := c.send(boot.TreeRequest{Op: boot.AskStats}, nil)
			if err != nil {
				t.Fatal(err)
			}
			req, _ := next(t, tree)
			if err := boot.SendPacket(tree, &boot.TreeReply{ID: req.ID}, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := c.await(asked, wait.Limit); err != nil {
				t.Fatal(err)
			}
		}
		hear := func() {
			wait.Receive(t, fmt.Sprintf("the report, early %v", early), told)
		}
		if early {
			say()
		}
		c.onWalk(func() { told <- struct{}{} })
		if early {
			hear()
		}
		for range 2 {
			say()
			hear()
		}
		if len(told) > 0 {
			t.Errorf("early %v: told more often than said", early)
		}
	}
}
