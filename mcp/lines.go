package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxMessage bounds a message of the client, in bytes: a file that is written, with escapes.
const maxMessage = 64 << 20

// A lineReader reads those lines of a client that are messages of JSON-RPC, or batches of them, and
// answers the others with the error that JSON-RPC has for them (https://www.jsonrpc.org/specification,
// section 5.1). The library ends at such a line. A line of more than maxMessage bytes is an error.
type lineReader struct {
	in   *bufio.Reader
	out  io.Writer // for the answers
	end  func()    // is called when in has ended
	line []byte    // what is left of the line that is being read
}

func newLineReader(in io.Reader, out io.Writer, end func()) *lineReader {
	return &lineReader{in: bufio.NewReader(in), out: out, end: end}
}

// Read implements io.Reader.
func (r *lineReader) Read(p []byte) (int, error) {
	for len(r.line) == 0 {
		line, err := r.next()
		if len(bytes.TrimSpace(line)) > 0 {
			if reply := refusal(line); reply == nil {
				r.line = line
				break
			} else if _, err := r.out.Write(reply); err != nil {
				r.end()
				return 0, err
			}
		}
		if err != nil {
			r.end()
			return 0, err
		}
	}
	n := copy(p, r.line)
	r.line = r.line[n:]
	return n, nil
}

// next returns the next line, with its end. The last one may have none, and comes with io.EOF.
func (r *lineReader) next() ([]byte, error) {
	var line []byte
	for {
		part, err := r.in.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxMessage {
			return nil, fmt.Errorf("a message of the client has more than %d bytes", maxMessage)
		}
		if err != bufio.ErrBufferFull {
			return line, err
		}
	}
}

// Close implements io.Closer. It does nothing.
func (r *lineReader) Close() error { return nil }

// refusal returns the reply to a line that is no message; nil: it is one, or a batch of them.
func refusal(line []byte) []byte {
	messages := []json.RawMessage{line}
	if line = bytes.TrimSpace(line); line[0] == '[' && json.Unmarshal(line, &messages) == nil && len(messages) == 0 {
		return errorReply(nil, jsonrpc.CodeInvalidRequest, "the batch is empty")
	}
	for _, m := range messages {
		if !json.Valid(m) {
			return errorReply(nil, jsonrpc.CodeParseError, "the line is not one JSON value")
		}
		if _, err := jsonrpc.DecodeMessage(m); err != nil {
			var has struct{ ID json.RawMessage }
			_ = json.Unmarshal(m, &has)
			return errorReply(has.ID, jsonrpc.CodeInvalidRequest, err.Error())
		}
	}
	return nil
}

// errorReply returns a line with an error. id is the request's; what is no string or number is null.
func errorReply(id json.RawMessage, code int64, message string) []byte {
	if len(id) == 0 || id[0] != '"' && id[0] != '-' && (id[0] < '0' || id[0] > '9') {
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
	return append(reply, '\n')
}

// A lineWriter is a Writer for several goroutines that is not closed. Each Write is a line.
type lineWriter struct {
	mu  sync.Mutex
	out io.Writer
}

// Write implements io.Writer.
func (w *lineWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(line)
}

// Close implements io.Closer. It does nothing.
func (*lineWriter) Close() error { return nil }
