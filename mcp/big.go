package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"wolffia/internal/jsontext"
)

const (
	// bigMessage is the size from which on messages over HTTP are few at the same time.
	bigMessage = 1 << 20
	// maxRest bounds a message over HTTP without the content that write_file takes: the library
	// has several copies of it.
	maxRest = 8 << 20
	// maxBig is how many big messages there are at the same time, of one party one.
	maxBig = 4
	// bigHeader names the [big] of a request to the library's handler: it is what a call sees of a request.
	bigHeader = "Wolffia-Big"
)

// A big is a message over HTTP that is large.
type big struct {
	text  []byte // the content of a write_file that was cut out; nil: none was
	leave func() // lets the next one in
}

// bigOf returns what belongs to a call that has come in a big message, or nil.
func (s *Server) bigOf(req *sdk.CallToolRequest) *big {
	if req.Extra == nil {
		return nil
	}
	b, _ := s.bigs.Load(req.Extra.Header.Get(bigHeader))
	x, _ := b.(*big)
	return x
}

// contentOf returns the content that a write_file has.
func (c *call) contentOf(in *writeIn) []byte {
	if c.big != nil && c.big.text != nil && in.Content == c.req.Extra.Header.Get(bigHeader) {
		return c.big.text
	}
	return []byte(in.Content)
}

// cut takes the content of a write_file out of a message, in which name is in its place then, so
// that the library does not copy it several times. It works within body's memory. content is nil
// if the message has none that is large. ok is false if it is not valid.
func cut(body []byte, name string) (rest, content []byte, ok bool) {
	from, to := jsontext.Longest(body)
	if to-from < bigMessage {
		return body, nil, true
	}
	rest = append(append(append(make([]byte, 0, len(body)-(to-from)+len(name)), body[:from]...), name...), body[to:]...)
	var m struct {
		Method string
		Params struct {
			Name      string
			Arguments struct{ Content string }
		}
	}
	if json.Unmarshal(rest, &m) != nil || m.Method != "tools/call" || m.Params.Name != "write_file" || m.Params.Arguments.Content != name {
		return body, nil, true
	}
	content, ok = jsontext.Unquote(body[from:to])
	return rest, content, ok
}

// A turnstile lets in few big messages at a time, and one of a party.
type turnstile struct {
	all chan struct{} // has a value for each that is in
	mu  sync.Mutex
	of  map[string]*turn // by party; guarded by mu
}

// A turn is that of a party.
type turn struct {
	taken chan struct{} // has a value if one is in
	users int           // that are in or wait
}

func newTurnstile() *turnstile {
	return &turnstile{all: make(chan struct{}, maxBig), of: map[string]*turn{}}
}

// enter waits for the turn of a party. The caller calls leave once, or more often.
func (t *turnstile) enter(ctx context.Context, party string) (leave func(), err error) {
	t.mu.Lock()
	mine := t.of[party]
	if mine == nil {
		mine = &turn{taken: make(chan struct{}, 1)}
		t.of[party] = mine
	}
	mine.users++
	t.mu.Unlock()
	forget := func() {
		t.mu.Lock()
		if mine.users--; mine.users == 0 {
			delete(t.of, party)
		}
		t.mu.Unlock()
	}
	for i, place := range []chan struct{}{mine.taken, t.all} {
		select {
		case place <- struct{}{}:
		case <-ctx.Done():
			if i == 1 {
				<-mine.taken
			}
			forget()
			return nil, ctx.Err()
		}
	}
	return sync.OnceFunc(func() {
		<-t.all
		<-mine.taken
		forget()
	}), nil
}

// newBigName returns a name that no client can guess.
func newBigName() string { return "big-" + rand.Text() }
