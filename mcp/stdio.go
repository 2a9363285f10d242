package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxMessage bounds a line of the client, in bytes: a file that is written, with escapes.
	maxMessage = 64 << 20
	// lastReplies is how long requests that came before the end of the client's stream have for
	// their replies.
	lastReplies = 2 * time.Second
)

// A stdio is the connection to a client that reads and writes lines (the protocol's transport "stdio"). Unlike
// the library's, which ends with an error in each of these cases,
//   - it answers a line that is no message with the error that JSON-RPC has for it
//     (https://www.jsonrpc.org/specification, section 5.1);
//   - it takes batches apart, which only versions before 2025-06-18 have, and answers each call by itself;
//   - it ends when what came before the end of the client's stream is answered.
//
// A line of more than maxMessage bytes is an error. A stdio is an [sdk.Transport], too.
type stdio struct {
	in        *bufio.Reader
	ended     func() // is called when in has ended
	messages  chan jsonrpc.Message
	err       error // why messages is closed
	closed    chan struct{}
	closeOnce sync.Once

	writing sync.Mutex
	out     io.Writer

	mu       sync.Mutex
	calls    map[jsonrpc.ID]bool // that have no reply yet
	canceled map[jsonrpc.ID]bool // those that the client has canceled, until the library replies
	replied  chan struct{}       // has a value when calls has become empty
}

func newStdio(in io.Reader, out io.Writer, ended func()) *stdio {
	return &stdio{
		in: bufio.NewReader(in), out: out, ended: ended,
		messages: make(chan jsonrpc.Message), closed: make(chan struct{}),
		calls: map[jsonrpc.ID]bool{}, canceled: map[jsonrpc.ID]bool{}, replied: make(chan struct{}, 1),
	}
}

// Connect implements [sdk.Transport]. The goroutine that reads ends with the client's stream, or at the
// first message after Close.
func (c *stdio) Connect(context.Context) (sdk.Connection, error) {
	go func() {
		c.err = c.receive()
		c.ended()
		c.awaitReplies()
		close(c.messages)
	}()
	return c, nil
}

// SessionID implements [sdk.Connection].
func (c *stdio) SessionID() string { return "" }

// Close implements [sdk.Connection]. It closes neither stream.
func (c *stdio) Close() error {
	c.closeOnce.Do(func() { close(c.closed) })
	return nil
}

// Read implements [sdk.Connection].
func (c *stdio) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m, ok := <-c.messages:
		if !ok {
			return nil, c.err
		}
		return m, nil
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements [sdk.Connection].
func (c *stdio) Write(ctx context.Context, m jsonrpc.Message) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	reply, is := m.(*jsonrpc.Response)
	if is {
		defer c.done(reply.ID)
	}
	if is && c.wasCanceled(reply.ID) {
		return nil
	}
	line, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	return c.writeLine(line)
}

func (c *stdio) writeLine(line []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.out.Write(append(line, '\n'))
	return err
}

// begun notes a call that waits for its reply, and forgets one that the client has canceled, which has none.
func (c *stdio) begun(m jsonrpc.Message) {
	call, is := m.(*jsonrpc.Request)
	if !is {
		return
	}
	if call.IsCall() {
		c.mu.Lock()
		c.calls[call.ID] = true
		c.mu.Unlock()
	}
	if call.Method == "notifications/cancelled" {
		var params struct{ RequestID any }
		_ = json.Unmarshal(call.Params, &params)
		if id, err := jsonrpc.MakeID(params.RequestID); err == nil {
			c.cancel(id)
		}
	}
}

// cancel notes that a call gets no reply, unless it has it already.
func (c *stdio) cancel(id jsonrpc.ID) {
	c.mu.Lock()
	if c.calls[id] {
		c.canceled[id] = true
	}
	c.mu.Unlock()
	c.done(id)
}

// wasCanceled reports whether the reply to a call is not sent.
func (c *stdio) wasCanceled(id jsonrpc.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.canceled[id]
	delete(c.canceled, id)
	return was
}

// done forgets a call.
func (c *stdio) done(id jsonrpc.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.calls, id); len(c.calls) == 0 {
		select {
		case c.replied <- struct{}{}:
		default:
		}
	}
}

// awaitReplies waits until each call has its reply, for lastReplies at most.
func (c *stdio) awaitReplies() {
	limit := time.NewTimer(lastReplies)
	defer limit.Stop()
	for {
		c.mu.Lock()
		waiting := len(c.calls)
		c.mu.Unlock()
		if waiting == 0 {
			return
		}
		select {
		case <-c.replied:
		case <-limit.C:
			return
		case <-c.closed:
			return
		}
	}
}

// receive passes on the client's messages until its stream ends.
func (c *stdio) receive() error {
	for {
		line, end := c.nextLine()
		for _, text := range split(line) {
			m, refused := decode(text)
			if refused != nil {
				if err := c.writeLine(refused); err != nil {
					return err
				}
				continue
			}
			c.begun(m)
			select {
			case c.messages <- m:
			case <-c.closed:
				return io.EOF
			}
		}
		if end != nil {
			return end
		}
	}
}

// nextLine returns the next line, without white space around it. The last one comes with io.EOF.
func (c *stdio) nextLine() ([]byte, error) {
	var line []byte
	for {
		part, err := c.in.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxMessage {
			return nil, fmt.Errorf("a message of the client has more than %d bytes", maxMessage)
		}
		if err != bufio.ErrBufferFull {
			return bytes.TrimSpace(line), err
		}
	}
}

// split returns the messages of a line: those of a batch, or the line itself; none if it is empty.
func split(line []byte) []json.RawMessage {
	var batch []json.RawMessage
	switch {
	case len(line) == 0:
		return nil
	case line[0] == '[' && json.Unmarshal(line, &batch) == nil && len(batch) > 0:
		return batch
	}
	return []json.RawMessage{line}
}

// decode returns a message, or the reply to what is none.
func decode(text []byte) (m jsonrpc.Message, refused []byte) {
	if !json.Valid(text) {
		return nil, refusal(nil, jsonrpc.CodeParseError, "the line is not one JSON value")
	}
	var has struct{ ID json.RawMessage }
	_ = json.Unmarshal(text, &has)
	m, err := jsonrpc.DecodeMessage(text)
	if err != nil {
		return nil, refusal(has.ID, jsonrpc.CodeInvalidRequest, err.Error())
	}
	if refused := refuseID(has.ID); refused != nil {
		return nil, refused
	}
	return m, nil
}

// refuseID returns the reply to a message whose id would be read as another one; nil: it would not.
func refuseID(id json.RawMessage) []byte {
	if !isNumber(id) {
		return nil
	}
	if n, err := strconv.ParseInt(string(id), 10, 64); err != nil || n > maxID || n < -maxID {
		return refusal(id, jsonrpc.CodeInvalidRequest, "the id is a number that would be read as another one: use an integer of at most 53 bits, or a string")
	}
	return nil
}

// maxID is the largest integer up to which a float64, as which the library reads an id, has all.
const maxID = 1<<53 - 1

// isNumber reports whether a valid JSON value is a number.
func isNumber(value json.RawMessage) bool {
	return len(value) > 0 && (value[0] == '-' || '0' <= value[0] && value[0] <= '9')
}

// refusal returns a message with an error. id is the request's; what is no string or number is null.
func refusal(id json.RawMessage, code int64, message string) []byte {
	if !isNumber(id) && (len(id) == 0 || id[0] != '"') {
		id = json.RawMessage("null")
	}
	reply, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   jsonrpc.Error   `json:"error"`
	}{"2.0", id, jsonrpc.Error{Code: code, Message: message}})
	if err != nil {
		panic(err) // its parts are JSON
	}
	return reply
}
