package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/textproto"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/host"
	"wolffia/fields"
	"wolffia/local"
	"wolffia/runtime"
)

func wrapCommand(h *host.Host) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "wrap [flags] [--] CMD [ARG...]",
		Short: "Run an MCP server or a language server of somebody else's in a sandbox",
		Long: `Run a server that an editor or an agent talks to on standard input and output, such as an MCP
server or a language server, in a sandbox over the project. It is run -i -q, but for one thing: a
language server is not told the editor's process, which it cannot see, and whose absence
would end it.

The flags are those of run. The sandbox ends with the server or with its client.`,
		Example: `  wolffia wrap --allow-host @npm -- npx -y @modelcontextprotocol/server-filesystem .
  wolffia wrap -- gopls
  claude mcp add files -- wolffia wrap -- my-mcp-server`,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, w, err := os.Pipe()
			if err != nil {
				return err
			}
			defer in.Close()
			from := h.In
			h.In, h.Quiet = in, true
			f.flags.Values = f.flags.With("interactive", true)
			go func() { // ends with the client's output, or the process
				defer w.Close()
				_ = passLanguageClient(w, from) // an error is the client's or the server's end
			}()
			return f.run(h, cmd, args, func(context.Context, *local.Runtime, string) error { return nil })
		},
	}
	f.add(h, cmd, fields.Run)
	return cmd
}

// maxInitialize bounds the first message of a client that is looked into, in bytes.
const maxInitialize = 1 << 20

// passLanguageClient copies what the client of a server sends. If that begins with a message of the
// Language Server Protocol which initializes the server, its processId becomes null (LSP 3.17,
// InitializeParams).
func passLanguageClient(w io.Writer, r io.Reader) error {
	in := bufio.NewReader(r)
	if begin, err := in.Peek(len(lengthHeader)); err == nil && string(begin) == lengthHeader {
		if err := passInitialize(w, in); err != nil {
			return err
		}
	}
	_, err := io.Copy(w, in)
	return err
}

const lengthHeader = "Content-Length:"

func passInitialize(w io.Writer, in *bufio.Reader) error {
	header, err := textproto.NewReader(in).ReadMIMEHeader()
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(header.Get("Content-Length"))
	if err != nil || n < 0 || n > maxInitialize {
		return runtime.Errorf(runtime.ErrInvalid, "Content-Length %q", header.Get("Content-Length"))
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(in, body); err != nil {
		return err
	}
	body = withoutProcess(body)
	_, err = fmt.Fprintf(w, "Content-Length: %d\r\n\r\n%s", len(body), body)
	return err
}

// withoutProcess returns the message initialize without the number of the client's process; any other
// text as it is.
func withoutProcess(message []byte) []byte {
	var all, params map[string]json.RawMessage
	if json.Unmarshal(message, &all) != nil || !bytes.Equal(all["method"], []byte(`"initialize"`)) ||
		json.Unmarshal(all["params"], &params) != nil || params["processId"] == nil {
		return message
	}
	params["processId"] = json.RawMessage("null")
	var err error
	if all["params"], err = json.Marshal(params); err != nil {
		return message
	}
	if text, err := json.Marshal(all); err == nil {
		return text
	}
	return message
}
