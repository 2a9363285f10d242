package opensandbox

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// execd sends a request to the execd at execdURL.
func (c *Client) execd(req *http.Request, execdURL string) (*http.Response, error) {
	c.mu.Lock()
	for k, v := range c.headers[strings.TrimSuffix(execdURL, "/")] {
		req.Header.Set(k, v)
	}
	c.mu.Unlock()
	if c.err == nil && c.apiKey != "" && req.URL.Host == c.base.Host && req.URL.Scheme == c.base.Scheme { // another host may be the sandbox itself
		req.Header.Set("OPEN-SANDBOX-API-KEY", c.apiKey)
	}
	return c.do(req, http.StatusOK)
}

// target returns the URL of a path of execd.
func target(execdURL, path string, query url.Values) string {
	t := strings.TrimSuffix(execdURL, "/") + path
	if len(query) > 0 {
		t += "?" + query.Encode()
	}
	return t
}

// Ping returns nil if the execd at execdURL answers.
func (c *Client) Ping(ctx context.Context, execdURL string) error {
	req, err := request(ctx, http.MethodGet, target(execdURL, "/ping", nil), nil)
	if err != nil {
		return err
	}
	res, err := c.execd(req, execdURL)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// A CommandResult is the output of a command and how it ended.
type CommandResult struct {
	// Stdout and Stderr are the output; of wolffia byte by byte. Execd itself sends lines:
	// there a newline is at the end whether or not the command has written one.
	Stdout, Stderr string
	ExitCode       int           // -1 if the command has no exit code: see Error
	Error          string        // why it has no exit code, such as its timeout; else empty
	Duration       time.Duration // as the server measured it
}

// MaxOutput is the largest output of a command, in bytes of both streams together.
const MaxOutput = 64 << 20

// maxEvent is the longest event, in bytes.
const maxEvent = 32 << 20

// RunCommand runs a command in a shell of its own, and waits for its end. timeout is in ms,
// 0 means none. That the command fails is not an error; output beyond MaxOutput is.
func (c *Client) RunCommand(ctx context.Context, execdURL, cmd, cwd string, timeout int) (*CommandResult, error) {
	body := map[string]any{"command": cmd}
	if cwd != "" {
		body["cwd"] = cwd
	}
	if timeout != 0 {
		body["timeout"] = timeout
	}
	req, err := request(ctx, http.MethodPost, target(execdURL, "/command", nil), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	res, err := c.execd(req, execdURL)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return readEvents(res.Body)
}

// An event is a part of a streamed reply. Where a server sends Data or ExitCode in place of
// the official fields, those count.
type event struct {
	Type          string `json:"type"`
	Text          string `json:"text"`
	Data          string `json:"data"`
	Bytes         []byte `json:"bytes"`
	EOL           *bool  `json:"eol"`
	ExecutionTime int64  `json:"execution_time"` // ms
	DurationMS    int64  `json:"durationMs"`
	ExitCode      *int   `json:"exitCode"`
	Error         *struct {
		Name  string `json:"ename"`
		Value string `json:"evalue"`
	} `json:"error"`
}

// output returns the bytes of an event of output.
func (e *event) output() []byte {
	b := []byte(e.Text)
	switch {
	case e.Bytes != nil:
		b = e.Bytes
	case e.Text == "":
		b = []byte(e.Data)
	}
	if e.EOL != nil && !*e.EOL || e.Bytes == nil && string(b) == "\n" { // so an empty line is sent
		return b
	}
	return append(b, '\n')
}

// readEvents reads a streamed reply to the end of the command.
func readEvents(r io.Reader) (*CommandResult, error) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxEvent)
	var stdout, stderr bytes.Buffer
	for s.Scan() {
		line, _ := bytes.CutPrefix(bytes.TrimSpace(s.Bytes()), []byte("data:"))
		var e event
		if len(line) == 0 || json.Unmarshal(line, &e) != nil { // a comment, or a field of another kind
			continue
		}
		switch e.Type {
		case "stdout":
			stdout.Write(e.output())
		case "stderr":
			stderr.Write(e.output())
		case "execution_complete", "error":
			result := e.result()
			result.Stdout, result.Stderr = stdout.String(), stderr.String()
			return result, nil
		}
		if stdout.Len()+stderr.Len() > MaxOutput {
			return nil, fmt.Errorf("the command has written more than %d bytes: send its output to a file", MaxOutput)
		}
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	return nil, errors.New("the reply ended before the command did")
}

// result returns what the last event says.
func (e *event) result() *CommandResult {
	r := &CommandResult{Duration: time.Duration(max(e.ExecutionTime, e.DurationMS)) * time.Millisecond}
	if e.ExitCode != nil {
		r.ExitCode = *e.ExitCode
	}
	if e.Type != "error" {
		return r
	}
	if e.Error == nil {
		r.Error = "the server reports an error without a description"
		return r
	}
	code, err := strconv.Atoi(e.Error.Value)
	switch {
	case err != nil:
		r.ExitCode, r.Error = -1, strings.TrimSpace(e.Error.Name+": "+e.Error.Value)
	case code < 0:
		r.ExitCode, r.Error = -1, "the command was killed, as after its timeout"
	default:
		r.ExitCode = code
	}
	return r
}

// FileInfo describes a file.
type FileInfo struct {
	Path       string    `json:"path"`
	Size       int64     `json:"size"` // bytes
	ModifiedAt time.Time `json:"modified_at"`
}

// SearchFiles returns the files below dir whose base name matches pattern; empty means all.
func (c *Client) SearchFiles(ctx context.Context, execdURL, dir, pattern string) ([]FileInfo, error) {
	q := url.Values{"path": {dir}}
	if pattern != "" {
		q.Set("pattern", pattern)
	}
	req, err := request(ctx, http.MethodGet, target(execdURL, "/files/search", q), nil)
	if err != nil {
		return nil, err
	}
	res, err := c.execd(req, execdURL)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var found []FileInfo
	if err := decode(res, &found); err != nil {
		return nil, err
	}
	return found, nil
}

// DownloadFile returns the content of a file. The caller closes it.
func (c *Client) DownloadFile(ctx context.Context, execdURL, path string) (io.ReadCloser, error) {
	req, err := request(ctx, http.MethodGet, target(execdURL, "/files/download", url.Values{"path": {path}}), nil)
	if err != nil {
		return nil, err
	}
	res, err := c.execd(req, execdURL)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// A FileUpload is a file to write.
type FileUpload struct {
	Path    string
	Content []byte
	Mode    int // permission bits, such as 0o644; 0: the server's default
}

// UploadFiles writes files, and creates missing directories, in one request. With an error
// some of them may have been written.
func (c *Client) UploadFiles(ctx context.Context, execdURL string, files []FileUpload) error {
	if len(files) == 0 {
		return nil
	}
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for i := range files {
		if err := addFile(form, &files[i]); err != nil {
			return err
		}
	}
	if err := form.Close(); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target(execdURL, "/files/upload", nil), &body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	res, err := c.execd(req, execdURL)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// addFile adds the two parts of a file. Execd takes a mode as octal digits in a decimal
// number.
func addFile(form *multipart.Writer, f *FileUpload) error {
	metadata := map[string]any{"path": f.Path}
	if f.Mode != 0 {
		digits, err := strconv.Atoi(strconv.FormatInt(int64(f.Mode), 8))
		if err != nil || f.Mode < 0 || f.Mode > 0o7777 {
			return fmt.Errorf("mode %#o of %q: it must be permission bits", f.Mode, f.Path)
		}
		metadata["mode"] = digits
	}
	text, err := json.Marshal(metadata)
	if err != nil {
		return err
	}
	for _, part := range []struct {
		name, media string
		content     []byte
	}{{"metadata", "application/json", text}, {"file", "application/octet-stream", f.Content}} {
		w, err := form.CreatePart(textproto.MIMEHeader{
			"Content-Disposition": {fmt.Sprintf(`form-data; name=%q; filename=%q`, part.name, part.name)},
			"Content-Type":        {part.media},
		})
		if err != nil {
			return err
		}
		if _, err := w.Write(part.content); err != nil {
			return err
		}
	}
	return nil
}
