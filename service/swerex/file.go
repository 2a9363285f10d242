package swerex

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime/multipart"
	"net/http"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"wolffia/internal/filecall"
	"wolffia/ops"
	"wolffia/ops/stream"
	"wolffia/runtime"
	"wolffia/service"
)

// A words is a program with its arguments, or one text.
type words []string

// UnmarshalJSON implements [json.Unmarshaler].
func (c *words) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		*c = words{text}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(c))
}

// A command is the body of /execute.
type command struct {
	Command words             `json:"command"`
	Timeout *float64          `json:"timeout"` // s; nil: none
	Shell   bool              `json:"shell"`
	Check   bool              `json:"check"`
	Message string            `json:"error_msg"`
	Env     map[string]string `json:"env"`
	Cwd     string            `json:"cwd"`
	Merge   bool              `json:"merge_output_streams"`
}

// A commandReply is the reply.
type commandReply struct {
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	ExitCode int    `json:"exit_code"`
}

// execute serves POST /execute.
func (h *Handler) execute(ctx context.Context, in *service.Inside, q *command) (any, error) {
	cmd := &runtime.Command{Command: q.Command, Env: q.Env, Cwd: q.Cwd, Merge: q.Merge, MaxOutput: maxOutput}
	if q.Shell {
		cmd.Command = append([]string{"sh", "-c"}, q.Command...)
	}
	if q.Timeout != nil {
		cmd.Timeout = seconds(*q.Timeout)
	}
	for k, v := range q.Env {
		if err := runtime.CheckVariable(k, v); err != nil {
			return nil, raise("builtins.ValueError", err.Error())
		}
	}
	r, err := in.Exec(ctx, cmd)
	var start *runtime.StartError
	switch {
	case errors.As(err, new(*service.TimeoutError)):
		return nil, raise("CommandTimeoutError", fmt.Sprintf("Timeout (%vs) exceeded while running command", *q.Timeout))
	case errors.As(err, &start) && (start.Code == 127 || strings.HasSuffix(start.Message, "no such file or directory")):
		return nil, raise("builtins.FileNotFoundError", start.Message)
	case errors.As(err, &start):
		return nil, raise("builtins.PermissionError", start.Message)
	case err != nil:
		return nil, pathFault(err)
	}
	reply := commandReply{escape(r.Stdout), escape(r.Stderr), r.ExitCode}
	if q.Check && r.ExitCode != 0 {
		const text = "Command %q failed with exit code %d. Stdout:\n%q\nStderr:\n%q"
		return nil, failed(q.Message, text, q.Command, r.ExitCode, reply.Stdout, reply.Stderr)
	}
	return reply, nil
}

// pathFault gives the errors of a file the classes that Python has for them.
func pathFault(err error) error {
	switch runtime.Class(err) {
	case runtime.ErrNotFound:
		return raise("builtins.FileNotFoundError", err.Error())
	case runtime.ErrDenied:
		return raise("builtins.PermissionError", err.Error())
	case runtime.ErrInvalid:
		return raise("builtins.OSError", err.Error())
	}
	return err
}

// A fileRequest is the body of /read_file and /write_file.
type fileRequest struct {
	Path     string `json:"path"`
	Content  string `json:"content"`
	Encoding string `json:"encoding"`
	Errors   string `json:"errors"`
}

// readFile serves POST /read_file. Line ends stay as they are.
func (h *Handler) readFile(ctx context.Context, in *service.Inside, q *fileRequest) (any, error) {
	b, err := in.Files().Whole(ctx, q.Path)
	if err != nil {
		return nil, pathFault(err)
	}
	text, err := decodeText(b, q.Encoding, q.Errors)
	return map[string]string{"content": text}, err
}

// decodeText returns the text of a file as Python decodes it.
func decodeText(b []byte, encoding, errs string) (string, error) {
	switch strings.ToLower(strings.ReplaceAll(encoding, "_", "-")) {
	case "", "utf-8", "utf8", "ascii", "us-ascii":
	case "latin-1", "latin1", "iso-8859-1":
		text := make([]rune, len(b))
		for i, c := range b {
			text[i] = rune(c)
		}
		return string(text), nil
	default:
		return "", raise("builtins.LookupError", fmt.Sprintf("encoding %q: want utf-8 or latin-1", encoding))
	}
	switch {
	case utf8.Valid(b):
		return string(b), nil
	case errs == "ignore":
		return strings.ToValidUTF8(string(b), ""), nil
	case errs == "replace":
		return string([]rune(string(b))), nil
	case errs == "backslashreplace":
		return escape(b), nil
	case errs == "" || errs == "strict":
		return "", raise("builtins.UnicodeDecodeError", "the file is not UTF-8: set errors, or encoding=latin-1")
	}
	return "", raise("builtins.LookupError", fmt.Sprintf("errors %q: want strict, ignore, replace or backslashreplace", errs))
}

// writeFile serves POST /write_file.
func (h *Handler) writeFile(ctx context.Context, in *service.Inside, q *fileRequest) (any, error) {
	return empty{}, pathFault(in.Files().Put(ctx, q.Path, []byte(q.Content), nil))
}

// The bounds of an upload.
const (
	maxUpload  = 4 << 30 // bytes
	maxEntries = 100_000 // files and directories of an archive
	inMemory   = 1 << 20 // bytes; more of it is in a temporary file
)

// upload serves POST /upload. The target comes after the file, so that the service keeps the file
// meanwhile.
func (h *Handler) upload(w http.ResponseWriter, r *http.Request, sandbox string) (any, error) {
	body := &stream.Body{ReadCloser: r.Body, Control: http.NewResponseController(w), Limit: h.opts.BodyLimit}
	r.Body = http.MaxBytesReader(w, body, maxUpload)
	if err := r.ParseMultipartForm(inMemory); err != nil {
		return nil, bodyFault(err)
	}
	defer func() { _ = r.MultipartForm.RemoveAll() }()
	_ = body.Control.SetReadDeadline(time.Time{}) // always supported
	heads, target := r.MultipartForm.File["file"], r.FormValue("target_path")
	if len(heads) != 1 || target == "" {
		return nil, &fault{http.StatusUnprocessableEntity, "the form needs one file, and target_path"}
	}
	in, err := h.inside(r.Context(), sandbox)
	if err != nil {
		return nil, err
	}
	file, err := heads[0].Open()
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "the file of the upload: %w", err)
	}
	defer file.Close()
	files := in.Files()
	if target, err = files.Path(target); err != nil {
		return nil, pathFault(err)
	}
	if unzip := r.FormValue("unzip"); strings.EqualFold(unzip, "true") || unzip == "1" {
		return empty{}, pathFault(unpack(r.Context(), files, target, file, heads[0].Size))
	}
	return empty{}, pathFault(files.Write(r.Context(), target, filecall.Mode{}, file))
}

// unpack writes what an archive has below a directory.
func unpack(ctx context.Context, files *ops.Files, dir string, file multipart.File, size int64) error {
	z, err := zip.NewReader(file, size)
	if err == nil && len(z.File) > maxEntries {
		err = fmt.Errorf("more than %d files", maxEntries)
	}
	if err != nil {
		return raise("zipfile.BadZipFile", "the file of the upload: "+err.Error())
	}
	if err := mkdir(ctx, files, dir); err != nil {
		return err
	}
	for _, f := range z.File {
		if !filepath.IsLocal(f.Name) {
			return raise("builtins.ValueError", fmt.Sprintf("the archive has %q, which is not below the target", f.Name))
		}
		at := path.Join(dir, f.Name)
		if strings.HasSuffix(f.Name, "/") {
			err = mkdir(ctx, files, at)
		} else {
			err = extract(ctx, files, at, f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func mkdir(ctx context.Context, files *ops.Files, dir string) error {
	_, err := files.Do(ctx, &filecall.Request{Op: filecall.OpMkdir, Modes: map[string]filecall.Mode{dir: {}}})
	return err
}

// extract writes a file of an archive.
func extract(ctx context.Context, files *ops.Files, at string, f *zip.File) error {
	r, err := f.Open()
	if err != nil {
		return raise("zipfile.BadZipFile", "the file of the upload: "+err.Error())
	}
	defer r.Close()
	return files.Write(ctx, at, filecall.Mode{}, r)
}
